import math

import torch
from torch import nn
from torch.nn import functional as F


try:
    from fused import SoftmaxDropout
except ImportError:
    SoftmaxDropout = None


def softmax_dropout(scores, p, training):
    if training and SoftmaxDropout is not None:
        return SoftmaxDropout.apply(scores, p)
    return F.dropout(scores.softmax(-1), p, training)


class Layer(nn.Module):
    def __init__(self, width, heads, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(self.one(x)).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        h = softmax_dropout(scores, self.p, self.training) @ v
        x = x + self.join(h.transpose(1, 2).reshape(n, t, c))
        return x + self.feed(self.two(x))


class Encoder(nn.Module):
    def __init__(self, words=3000, width=128, layers=4, length=64, classes=5, p=0.1):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        self.layers = nn.ModuleList(Layer(width, 4, p) for _ in range(layers))
        self.out = nn.Linear(width, classes)

    def forward(self, tokens):
        h = self.words(tokens) + self.places
        for layer in self.layers:
            h = layer(h)
        return self.out(h.mean(1))
