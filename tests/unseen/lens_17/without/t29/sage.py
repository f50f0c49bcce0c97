import torch
from torch import nn


class Sage(nn.Module):
    """Two hops: near papers, and those near to them."""

    def __init__(self, features=64, width=448, fields=12):
        super().__init__()
        self.one = nn.Linear(2 * features, width)
        self.two = nn.Linear(2 * width, width)
        self.out = nn.Linear(width, fields)

    def forward(self, own, near, far):
        a = torch.relu(self.one(torch.cat([own, near.mean(1)], 1)))
        b = torch.relu(self.one(torch.cat([near, far.mean(2)], 2)))
        return self.out(torch.relu(self.two(torch.cat([a, b.mean(1)], 1))))
