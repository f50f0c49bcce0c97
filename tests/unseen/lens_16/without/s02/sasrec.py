import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = self.qkv(self.one(x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(h.transpose(1, 2).reshape(rows, length, width))
        return x + self.feed(self.two(x))


class SASRec(nn.Module):
    """What does somebody buy next, given the things bought so far."""

    def __init__(self, items=1500, width=96, layers=2, longest=40):
        super().__init__()
        self.items = nn.Embedding(items, width)
        self.places = nn.Parameter(0.02 * torch.randn(longest, width))
        self.layers = nn.ModuleList(Layer(width, 4) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.items.weight, std=0.05)

    def forward(self, history):
        h = self.items(history) + self.places
        for layer in self.layers:
            h = layer(h)
        return self.norm(h[:, -1]) @ self.items.weight.t()
