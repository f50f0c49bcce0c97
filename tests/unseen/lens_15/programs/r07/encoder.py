import torch
from torch import nn
from torch.nn import functional as F


def stage(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, stride=2, padding=1), nn.GroupNorm(8, outside), nn.ReLU(),
        nn.Conv2d(outside, outside, 3, padding=1), nn.GroupNorm(8, outside), nn.ReLU(),
    )


class Encoder(nn.Module):
    def __init__(self, dim=96, width=24):
        super().__init__()
        self.body = nn.Sequential(stage(3, width), stage(width, 2 * width), stage(2 * width, 4 * width))
        self.head = nn.Linear(4 * width, dim)

    def forward(self, x):
        return F.normalize(self.head(self.body(x).mean((2, 3))), dim=1)
