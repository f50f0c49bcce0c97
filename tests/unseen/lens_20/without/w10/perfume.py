import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.narrow(F.gelu(self.wide(self.norm(x))))


class Perfume(nn.Module):
    """How people describe a scent, by what is in it."""

    def __init__(self, parts=150, width=448, hidden=512, depth=2, words=60):
        super().__init__()
        self.enter = nn.Linear(parts, width)
        self.layers = nn.ModuleList(Layer(width, hidden) for _ in range(depth))
        self.out = nn.Linear(width, words)

    def forward(self, x):
        x = self.enter(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)
