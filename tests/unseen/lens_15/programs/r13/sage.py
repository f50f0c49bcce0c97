import torch
from torch import nn


class SageLayer(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.own = nn.Linear(inside, outside)
        self.near = nn.Linear(inside, outside, bias=False)

    def forward(self, h, edges):
        total = torch.zeros_like(h).index_add_(0, edges[0], h[edges[1]])
        count = torch.bincount(edges[0], minlength=len(h)).clamp(min=1)
        return torch.relu(self.own(h) + self.near(total / count[:, None]))


class Sage(nn.Module):
    def __init__(self, features=64, width=128, classes=10, depth=3):
        super().__init__()
        sizes = [features] + depth * [width]
        self.layers = nn.ModuleList(SageLayer(a, b) for a, b in zip(sizes, sizes[1:]))
        self.out = nn.Linear(width, classes)

    def forward(self, x, edges):
        for layer in self.layers:
            x = layer(x, edges)
        return self.out(x)
