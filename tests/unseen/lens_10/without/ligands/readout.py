import torch
from torch import nn


class DistanceReadout(nn.Module):
    """Weighs each atom by how close it is to the others, and sums up."""

    def __init__(self, dim):
        super().__init__()
        self.value = nn.Linear(dim, dim)
        self.beta = nn.Parameter(torch.tensor(0.7))

    def forward(self, h, xyz):
        v = self.value(h)
        gap = xyz.unsqueeze(1) - xyz.unsqueeze(2)
        weight = torch.softmax(-self.beta * gap.pow(2).sum(-1), dim=-1)
        return (weight @ v).sum(1)
