import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, 2))
        x = x + self.proj(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Patches(nn.Module):
    def __init__(self, width=160, depth=2, heads=4, classes=20):
        super().__init__()
        self.embed = nn.Conv2d(3, width, 8, stride=8)
        self.places = nn.Parameter(torch.randn(1, 16, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        h = self.embed(x).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            h = block(h)
        return self.head(h.mean(1))
