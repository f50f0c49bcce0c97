import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, 2))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm_a, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm_b, self.feed = nn.LayerNorm(width), nn.Sequential(nn.Linear(width, 3 * width), nn.ReLU(), nn.Linear(3 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm_a(x))
        return x + self.feed(self.norm_b(x))


class Reader(nn.Module):
    """Goes on with a line of knitting instructions."""

    def __init__(self, signs=40, width=96, depth=4, heads=4, length=48):
        super().__init__()
        self.sign, self.place = nn.Embedding(signs, width), nn.Parameter(0.02 * torch.randn(length, width))
        self.layers = nn.Sequential(*[Layer(width, heads) for _ in range(depth)])
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, signs)

    def forward(self, rows):
        return self.out(self.norm(self.layers(self.sign(rows) + self.place)))
