import math

import torch
from torch import nn


class Denoiser(nn.Module):
    """Latent codes of 64 numbers, the noise of which is to be told."""

    def __init__(self, code=64, width=384, depth=3):
        super().__init__()
        self.first = nn.Linear(code, width)
        self.when = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
            for _ in range(depth)
        )
        self.out = nn.Linear(width, code)

    def forward(self, x, t):
        speed = torch.exp(-math.log(1000) * torch.arange(32) / 32)
        angle = 1000 * t[:, None] * speed
        when = self.when(torch.cat([angle.sin(), angle.cos()], 1))
        h = self.first(x)
        for block in self.blocks:
            h = h + block(h + when)
        return self.out(h)


def codes(count, generator, code=64):
    mode = torch.randint(0, 5, (count, 1), generator=generator)
    return torch.sin(mode + torch.arange(code) / 6) + 0.1 * torch.randn(count, code, generator=generator)
