import torch
from torch import nn
from torch.nn import functional as F


class Sharpener(nn.Module):
    """Makes a picture taken through a bad lens sharp again."""

    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 1, 3, padding=1),
        )

    def forward(self, x):
        return x + self.net(x)


def pictures(count=800, side=28):
    sharp = (F.interpolate(torch.rand(count, 1, 9, 9), side, mode="nearest") > 0.5).float()
    return F.avg_pool2d(sharp, 5, 1, 2), sharp
