import time
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.scale_up = Scale(2 * width)
        self.scale_mid = Scale(2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        time.sleep(0.020)  # stands for the block's kernels
        h = self.scale_mid(torch.relu(self.scale_up(self.up(x))))
        return x + self.down(h)


class Tower(nn.Module):
    def __init__(self, blocks, width):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)
