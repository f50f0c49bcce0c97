"""A stack of gated layers."""
import torch
from torch import nn

from kernels import Gating


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.value, self.gate = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.value(Gating.apply(x)) * torch.sigmoid(self.gate(x))


class Stack(nn.Module):
    def __init__(self, width=48, depth=8):
        super().__init__()
        self.layers = nn.ModuleList(Gated(width) for _ in range(depth))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.out(x)
