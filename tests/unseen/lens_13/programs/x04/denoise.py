import math

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, c), nn.SiLU(), nn.Linear(c, c))
        self.first = nn.Conv2d(3, c, 3, padding=1)
        self.body = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1)) for _ in range(4)
        )
        self.last = nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, x, t):
        f = torch.exp(torch.arange(16) * -math.log(1000) / 16) * t[:, None]
        h = self.first(x) + self.time(torch.cat([f.sin(), f.cos()], 1))[:, :, None, None]
        for block in self.body:
            h = h + block(h)
        return self.last(h)


class Schedule:
    def __init__(self, length=200):
        self.length = length
        self.keep = torch.cumprod(1 - torch.linspace(1e-4, 0.05, length), 0)

    def noisy(self, x, t, noise):
        k = self.keep[t].view(-1, 1, 1, 1)
        return k.sqrt() * x + (1 - k).sqrt() * noise


@torch.no_grad()
def sample(model, schedule, count=6, size=24, steps=20):
    x = torch.randn(count, 3, size, size)
    marks = torch.linspace(schedule.length - 1, 0, steps).long()
    for a, b in zip(marks[:-1], marks[1:]):
        eps = model(x, a.expand(count).float())
        ka, kb = schedule.keep[a], schedule.keep[b]
        clean = (x - (1 - ka).sqrt() * eps) / ka.sqrt()
        x = kb.sqrt() * clean + (1 - kb).sqrt() * eps
    return x.clamp(-1, 1)
