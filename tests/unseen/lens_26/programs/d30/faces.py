import torch
from torch import nn
from torch.nn import functional as F


class Portraits(nn.Module):
    """One trunk for small portraits, and a head for each question about them."""

    def __init__(self, width=32):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 1, 1), nn.ReLU(), nn.Conv2d(2 * width, 2 * width, 3, 2, 1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(8 * width, 256), nn.ReLU(),
        )
        self.heads = nn.ModuleDict({"age": nn.Linear(256, 1), "mood": nn.Linear(256, 6)})

    def forward(self, pictures):
        features = self.trunk(pictures)
        return {name: head(features) for name, head in self.heads.items()}


def losses_of(answers, wanted):
    return {
        "age": F.smooth_l1_loss(answers["age"].squeeze(1), wanted["age"]),
        "mood": F.cross_entropy(answers["mood"], wanted["mood"]),
    }


def paint(count=1960, side=32):
    made = torch.Generator().manual_seed(41)
    wanted = {
        "age": torch.rand(count, generator=made), "mood": torch.randint(0, 6, (count,), generator=made),
    }
    pictures = torch.randn(count, 1, side, side, generator=made) + wanted["age"].view(-1, 1, 1, 1)
    return pictures, wanted
