import torch
from torch import nn


class Mix(nn.Module):
    def __init__(self, places, width):
        super().__init__()
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.places = nn.Sequential(nn.Linear(places, 2 * places), nn.GELU(), nn.Linear(2 * places, places))
        self.channels = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

    def forward(self, x):
        x = x + self.places(self.one(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.two(x))


class Mixer(nn.Module):
    """An MLP-Mixer for pictures of 32 by 32."""

    def __init__(self, patch=4, side=32, width=128, depth=3, kinds=100):
        super().__init__()
        self.cut = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.ModuleList(Mix((side // patch) ** 2, width) for _ in range(depth))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, kinds)

    def forward(self, x):
        h = self.cut(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            h = block(h)
        return self.out(self.norm(h.mean(1)))
