import torch
from torch import nn
from torch.nn import functional as F


def window(length, reach):
    """Which places a place may look at: itself and the last few before it."""
    gap = torch.arange(length)[:, None] - torch.arange(length)[None]
    return (gap >= 0) & (gap < reach)


def turn(x):
    """Rotary places."""
    length, half = x.shape[-2], x.shape[-1] // 2
    angle = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(half) / half)
    a, b = x.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


class Block(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask):
        n, t, c = x.shape
        q, k, v = self.qkv(self.one(x)).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(turn(q), turn(k), v, attn_mask=mask)
        x = x + self.join(h.transpose(1, 2).reshape(n, t, c))
        return x + self.feed(self.two(x))


class Decoder(nn.Module):
    def __init__(self, words=400, width=192, layers=2, reach=16):
        super().__init__()
        self.words, self.reach = nn.Embedding(words, width), reach
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens):
        mask = window(tokens.shape[1], self.reach)
        h = self.words(tokens)
        for block in self.blocks:
            h = block(h, mask)
        return self.out(self.norm(h))
