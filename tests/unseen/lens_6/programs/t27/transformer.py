"""A small transformer."""
from torch import nn

from kernels import Attention


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

    def forward(self, x):
        x = x + self.project(Attention.apply(self.norm(x)))
        return x + self.mlp(x)


class Transformer(nn.Module):
    def __init__(self, width=96, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 64)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
