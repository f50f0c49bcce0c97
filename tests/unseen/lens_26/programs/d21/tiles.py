import torch
from torch import nn


class Stem(nn.Module):
    """Stands for a network trained before on other pictures."""

    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(), nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )

    def forward(self, x):
        return self.net(x)


class Damage(nn.Module):
    """Pictures of roofs -> kind of damage; the head is new."""

    def __init__(self, stem, width=128, inner=1408, kinds=7):
        super().__init__()
        self.stem = stem
        self.head = nn.Sequential(
            nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, inner), nn.GELU(), nn.Dropout(0.1), nn.Linear(inner, kinds),
        )

    def forward(self, pictures):
        features = self.stem(pictures)  #: LINE
        return self.head(features)


def roofs(count=2000, side=48, kinds=7):
    kind = torch.randint(0, kinds, (count,))
    return torch.randn(kinds, 3, 1, 1)[kind] / 2 + torch.randn(count, 3, side, side), kind
