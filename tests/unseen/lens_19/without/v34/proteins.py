import torch
from torch import nn
from torch.nn import functional as F

from split import Spread, Sum


class Block(nn.Module):
    """Each rank has its share of the heads and of the hidden units."""

    def __init__(self, width, heads, world):
        super().__init__()
        own = width // world
        self.heads = heads // world
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * own), nn.Linear(own, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * own), nn.Linear(4 * own, width, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(Spread.apply(self.first(x))).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + Sum.apply(self.mix(y))
        return x + Sum.apply(self.down(F.gelu(self.up(Spread.apply(self.second(x))))))


class Proteins(nn.Module):
    """Masked parts of a protein."""

    def __init__(self, world, width=192, depth=3, length=48):
        super().__init__()
        torch.manual_seed(0)
        self.parts, self.places, self.out = nn.Embedding(26, width), nn.Embedding(length, width), nn.Linear(width, 26)
        self.blocks = nn.ModuleList(Block(width, 4, world) for _ in range(depth))

    def forward(self, x):
        x = self.parts(x) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def chains(count=2000, length=48):
    """The same on all ranks."""
    return torch.randint(0, 25, (count, length), generator=torch.Generator().manual_seed(0))
