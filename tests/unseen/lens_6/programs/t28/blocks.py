"""Feed-forward blocks."""
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Products(torch.autograd.Function):
    """The matrix products of a block on the accelerator (waits)."""

    @staticmethod
    def forward(ctx, x):
        time.sleep(0.0035)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.006)
        return grad


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(Products.apply(self.norm(x)))))


class Tower(nn.Module):
    def __init__(self, width, depth, save_memory):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.save_memory = save_memory

    def forward(self, x):
        for block in self.blocks:
            if self.save_memory:
                x = checkpoint(block, x, use_reentrant=False)  #: LINE
            else:
                x = block(x)
        return x
