"""The tower that encodes both questions and passages."""
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Tower(nn.Module):
    def __init__(self, width=384, inner=1152, depth=4):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, inner) for _ in range(depth))
        self.out = nn.Linear(width, 128)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return F.normalize(self.out(x.mean(1)), dim=-1)
