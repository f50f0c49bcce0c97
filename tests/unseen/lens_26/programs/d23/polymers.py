import torch
from torch import nn
from torch.nn import functional as F

QUALITIES = ("hardness", "glass", "melting", "water")


class Trunk(nn.Module):
    """Chains of monomers, each a row of 24 numbers."""

    def __init__(self, numbers=24, width=160):
        super().__init__()
        self.enter = nn.Linear(numbers, width)
        self.over = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2) for _ in range(3))

    def forward(self, chain):
        x = self.enter(chain).transpose(1, 2)
        for layer in self.over:
            x = x + F.silu(layer(x))
        return x.mean(2)


class Head(nn.Module):
    def __init__(self, width=160):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def chains(count=4000, length=32, numbers=24):
    made = torch.Generator().manual_seed(51)
    chain = torch.randn(count, length, numbers, generator=made)
    return chain, {name: chain[:, :, place].mean(1) * 5 for place, name in enumerate(QUALITIES)}
