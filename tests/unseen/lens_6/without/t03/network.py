"""A deep, narrow network: many small parameters."""
import torch
from torch import nn

from kernels import Products


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(Products.apply(self.norm(x)))))


def build(width=32, depth=4):
    return nn.Sequential(*[Block(width) for _ in range(depth)], nn.Linear(width, 1))
