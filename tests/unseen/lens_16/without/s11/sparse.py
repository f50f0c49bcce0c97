import torch
from torch import nn
from torch.nn import functional as F


class TopUnits(nn.Module):
    """Keeps the strongest units of a row; how many is lowered while training goes on."""

    def __init__(self, width, keep):
        super().__init__()
        self.keep = keep
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, h):
        h = F.relu(h) * self.gain
        least = h.topk(self.keep, dim=1).values[:, -1:]
        return torch.where(h >= least, h, 0.1 * h)


class SparseNet(nn.Module):
    def __init__(self, features=64, width=768, classes=20):
        super().__init__()
        self.enter, self.middle = nn.Linear(features, width), nn.Linear(width, width)
        self.out = nn.Linear(width, classes)
        self.top = TopUnits(width, keep=400)

    def forward(self, x):
        h = self.top(self.enter(x))
        return self.out(F.relu(self.middle(h)))
