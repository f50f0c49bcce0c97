import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.gate, self.value, self.back = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)
        self.mix = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        x = x + self.mix * F.pad(x[:, :-1], (0, 0, 1, 0))
        y = self.norm(x)
        return x + self.back(F.silu(self.gate(y)) * self.value(y))


class Subtitles(nn.Module):
    """Writes subtitles on, letter by letter."""

    def __init__(self, letters=256, width=192, inner=512, depth=3):
        super().__init__()
        self.table = nn.Embedding(letters, width)
        self.layers = nn.ModuleList(Layer(width, inner) for _ in range(depth))
        self.head = nn.Sequential(nn.RMSNorm(width), nn.Linear(width, letters, bias=False))

    def forward(self, tokens):
        x = self.table(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)
