import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.narrow(torch.relu(self.wide(self.norm(x))))


class Ores(nn.Module):
    """Metals in a rock from its spectrum."""

    def __init__(self, bands=300, width=320, depth=4, metals=12):
        super().__init__()
        self.enter, self.out = nn.Linear(bands, width), nn.Linear(width, metals)
        self.blocks = nn.Sequential(*[Residual(width) for _ in range(depth)])

    def forward(self, x):
        return self.out(self.blocks(self.enter(x)))


def rocks(count=5000, bands=300, metals=12):
    content = torch.rand(count, metals) ** 3
    return content @ torch.rand(metals, bands) + 0.1 * torch.randn(count, bands), content
