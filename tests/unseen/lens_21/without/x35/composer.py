import torch
from torch import nn
from torch.nn import functional as F


class Heads(nn.Module):
    """The heads of causal self-attention."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.register_buffer("mask", torch.ones(length, length).triu(1).bool())
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (part(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value))
        scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
        return self.out((F.softmax(scores.masked_fill(self.mask, float("-inf")), -1) @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = Heads(width, heads, length)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attend(self.first(x))
        return x + self.feed(self.second(x))


class Composer(nn.Module):
    """Writes melodies, note by note."""

    def __init__(self, notes=96, width=128, heads=16, depth=3, length=48):
        super().__init__()
        self.notes, self.places = nn.Embedding(notes, width), nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.Sequential(*[Block(width, heads, length) for _ in range(depth)])
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, notes)

    def forward(self, x):
        return self.out(self.norm(self.blocks(self.notes(x) + self.places)))
