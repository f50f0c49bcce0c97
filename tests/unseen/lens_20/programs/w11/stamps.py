import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, places, width):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.places = nn.Sequential(nn.Linear(places, 2 * places), nn.GELU(), nn.Linear(2 * places, places))
        self.width = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.places(self.first(x).transpose(1, 2)).transpose(1, 2)
        return x + self.width(self.second(x))


class StampNet(nn.Module):
    """The year of a stamp, by its picture."""

    def __init__(self, side=48, patch=6, width=128, depth=3):
        super().__init__()
        places = (side // patch) ** 2
        self.enter = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*[Mixer(places, width) for _ in range(depth)])
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        x = self.enter(x).flatten(2).transpose(1, 2)
        return self.out(self.blocks(x).mean(1)).squeeze(1)
