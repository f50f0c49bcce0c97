import torch
from torch import nn


def skies(count=4000, pixels=32, kinds=9):
    """Patches of cloud, two channels, and the kind of cloud."""
    kind = torch.randint(0, kinds, (count,))
    return torch.randn(kinds, 2, pixels, pixels)[kind] + 2 * torch.randn(count, 2, pixels, pixels), kind


class CloudNet(nn.Module):
    def __init__(self, width=32, kinds=9):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        )
        self.head = nn.Linear(32 * width, kinds)

    def forward(self, patches):
        return self.head(self.body(patches))
