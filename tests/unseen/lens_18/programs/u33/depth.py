import torch
from torch import nn


class Depth(nn.Module):
    """Depth of a room from a picture."""

    def __init__(self, width=56):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 1, 3, padding=1),
        )

    def forward(self, x):
        return self.net(x)


def rooms(seed, count=600, side=20):
    g = torch.Generator().manual_seed(seed)
    picture = torch.randn(count, 3, side, side, generator=g)
    return picture, picture[:, :1].roll(1, 2) * 0.5
