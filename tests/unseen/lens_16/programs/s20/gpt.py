import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(self.one(x)).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, c)
        x = x + self.join(h)
        return x + self.feed(self.two(x))


class GPT(nn.Module):
    def __init__(self, words=512, width=256, layers=3, length=24):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens):
        h = self.words(tokens) + self.places
        for block in self.blocks:
            h = block(h)
        return self.out(self.norm(h))
