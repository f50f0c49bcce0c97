import torch
from torch import nn


class CrossNet(nn.Module):
    """Wide and deep with crossed features."""

    def __init__(self, fields=12, values=200, width=16, hidden=320):
        super().__init__()
        self.table = nn.Embedding(fields * values, width)
        self.register_buffer("shift", values * torch.arange(fields))
        size = fields * width
        self.cross = nn.ModuleList(nn.Linear(size, size) for _ in range(2))
        self.deep = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.out = nn.Linear(size + hidden, 1)

    def forward(self, codes):
        first = x = self.table(codes + self.shift).flatten(1)
        for layer in self.cross:
            x = first * layer(x) + x
        return self.out(torch.cat([x, self.deep(first)], 1)).squeeze(1)


def stream(steps, size, fields=12, values=200):
    g = torch.Generator().manual_seed(0)
    taste = torch.randn(fields, values, generator=g)
    for _ in range(steps):
        codes = torch.randint(0, values, (size, fields), generator=g)
        score = taste[torch.arange(fields), codes].sum(1) / 2 - 1
        yield codes, (torch.sigmoid(score) > torch.rand(size, generator=g)).long()
