import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width),
        )

    def forward(self, x):
        return x + self.net(x)


class Wind(nn.Module):
    """Wind at noon on a grid, by the morning's."""

    def __init__(self, points=192, width=160, depth=4):
        super().__init__()
        self.enter = nn.Linear(points, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.out = nn.Linear(width, points)

    def forward(self, x):
        x = self.enter(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def days(seed, count=3000, points=192):
    morning = torch.randn(count, points, generator=torch.Generator().manual_seed(seed)).cumsum(1) / 16
    return morning, morning.roll(7, 1) - 0.2 * morning
