import math

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inside, outside, dim):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, padding=1)
        self.shift = nn.Linear(dim, outside)
        self.norm = nn.GroupNorm(8, outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1)

    def forward(self, x, t):
        h = nn.functional.silu(self.conv1(x) + self.shift(t)[:, :, None, None])
        return nn.functional.silu(self.conv2(self.norm(h)))


class Denoiser(nn.Module):
    def __init__(self, width=32, dim=64):
        super().__init__()
        self.dim = dim
        self.levels = nn.Embedding(1000, dim)
        self.time = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.down1, self.down2 = Block(1, width, dim), Block(width, 2 * width, dim)
        self.up = Block(3 * width, width, dim)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x, level):
        t = self.time(self.levels(level))
        a = self.down1(x, t)
        b = self.down2(nn.functional.avg_pool2d(a, 2), t)
        b = nn.functional.interpolate(b, scale_factor=2.0)
        return self.out(self.up(torch.cat([a, b], 1), t))
