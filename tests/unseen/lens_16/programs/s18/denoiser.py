import math

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, features=256, width=1024, depth=3):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(64, width), nn.SiLU())
        self.enter = nn.Linear(features, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
            for _ in range(depth)
        )
        self.out = nn.Linear(width, features)

    def forward(self, x, t):
        rate = torch.exp(-math.log(1e4) * torch.arange(32) / 32)
        angle = t[:, None] * rate
        h = self.enter(x) + self.time(torch.cat([angle.sin(), angle.cos()], 1))
        for block in self.blocks:
            h = h + block(h)
        return self.out(h)


def noised(x, t, steps=1000):
    keep = torch.cos(0.5 * math.pi * t / steps)[:, None] ** 2
    noise = torch.randn_like(x)
    return keep.sqrt() * x + (1 - keep).sqrt() * noise, noise
