import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self, width, places):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.into, self.back = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)
        self.mix = nn.Linear(places, places)

    def forward(self, x):
        a, b = torch.nn.functional.gelu(self.into(self.norm(x))).chunk(2, -1)
        return x + self.back(a * self.mix(b.transpose(1, 2)).transpose(1, 2))


class TextModel(nn.Module):
    def __init__(self, vocab=800, width=160, depth=3, places=48):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Gated(width, places) for _ in range(depth))
        self.out = nn.Linear(width, vocab)

    def forward(self, ids):
        h = self.words(ids)
        for layer in self.layers:
            h = layer(h)
        return self.out(h)
