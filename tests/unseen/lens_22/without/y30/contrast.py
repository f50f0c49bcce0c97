import torch
from torch import nn
from torch.nn import functional as F


class Contrast(nn.Module):
    """Two views of the same shard are to be more alike than those of different ones."""

    def __init__(self, temperature=0.2):
        super().__init__()
        self.temperature = temperature

    def forward(self, a, b):
        z = F.normalize(torch.cat([a, b]), dim=1)
        count = len(a)
        likeness = (z @ z.T / self.temperature).fill_diagonal_(float("-inf"))
        partner = torch.arange(2 * count).roll(count)
        return F.cross_entropy(likeness, partner)
