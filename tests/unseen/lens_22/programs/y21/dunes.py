import torch
from torch import nn
from torch.nn import functional as F


def dunes(count=800, side=32):
    ways = torch.linspace(0, 6, side)
    slope = torch.randn(count, 1, 1)
    waves = ((2 + slope) * ways[:, None] + ways).sin() + 0.3 * (5 * ways + slope).cos()
    return F.avg_pool2d(F.pad(waves.unsqueeze(1), (1, 1, 1, 1)), 3, 1)


class Smoother(nn.Module):
    """Takes the noise out of a picture of the height of dunes."""

    def __init__(self, width=48):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU())
        self.middle = nn.Sequential(nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU())
        self.up = nn.Sequential(
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(width, 1, 4, 2, 1),
        )

    def forward(self, x):
        x = self.down(x)
        return self.up(x + self.middle(x))
