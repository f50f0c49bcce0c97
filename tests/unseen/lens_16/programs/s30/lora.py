import torch
from torch import nn


class LoRA(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + (x @ self.a.t()) @ self.b.t()


class Frozen(nn.Module):
    def __init__(self, features=96, width=640, depth=4, classes=12):
        super().__init__()
        sizes = [features] + [width] * depth
        self.layers = nn.ModuleList(LoRA(nn.Linear(a, b)) for a, b in zip(sizes, sizes[1:]))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)

    def adapter(self):
        return {name: p.detach() for name, p in self.named_parameters() if p.requires_grad}
