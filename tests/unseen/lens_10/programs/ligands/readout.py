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
        pooled = []
        for b in range(h.shape[0]):
            gap = xyz[b].unsqueeze(0) - xyz[b].unsqueeze(1)
            weight = torch.softmax(-self.beta * gap.pow(2).sum(-1), dim=-1)
            pooled.append((weight @ v[b]).sum(0))
        return torch.stack(pooled)
