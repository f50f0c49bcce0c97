import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Conv1d(width, width, 5, padding=2, groups=4)
        self.wide = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

    def forward(self, x):
        h = self.norm(x)
        return x + self.wide(h + self.mix(h.transpose(1, 2)).transpose(1, 2))


class Series(nn.Module):
    def __init__(self, channels=12, width=160, depth=2):
        super().__init__()
        self.inside = nn.Linear(channels, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.out = nn.Linear(width, channels)

    def forward(self, x):
        h = self.inside(x)
        for block in self.blocks:
            h = block(h)
        return self.out(h)
