import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, patches, width):
        super().__init__()
        self.norm_a, self.norm_b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches))
        self.within = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.across(self.norm_a(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.norm_b(x))


class Mixer(nn.Module):
    """Tells the kind of a moth from 16 patches of its wing."""

    def __init__(self, side=24, patch=6, width=96, depth=6, kinds=20):
        super().__init__()
        self.enter = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*[Block((side // patch) ** 2, width) for _ in range(depth)])
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, kinds)

    def forward(self, x):
        x = self.enter(x).flatten(2).transpose(1, 2)
        return self.out(self.norm(self.blocks(x)).mean(1))


def wings(count=1200, side=24, kinds=20):
    kind = torch.randint(0, kinds, (count,))
    return torch.rand(kinds, 3, side, side)[kind] + 0.5 * torch.randn(count, 3, side, side), kind
