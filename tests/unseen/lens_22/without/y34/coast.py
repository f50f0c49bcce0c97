import torch
from torch import nn


class Stage(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        return x + self.second(torch.relu(self.first(self.norm(x))))


class Coast(nn.Module):
    """Where the waves will have moved the sand, from a line of soundings."""

    def __init__(self, soundings=120, width=192, depth=3):
        super().__init__()
        self.enter = nn.Linear(soundings, width)
        self.stages = nn.ModuleList(Stage(width) for _ in range(depth))
        self.out = nn.Linear(width, soundings)

    def forward(self, x):
        x = self.enter(x)
        for stage in self.stages:
            x = stage(x)
        return self.out(x)
