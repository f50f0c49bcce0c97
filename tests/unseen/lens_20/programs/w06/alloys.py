import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x):
        return x + self.net(x)


def alloy_net(parts, width, depth):
    """Hardness and melting point of an alloy, by its parts."""
    return nn.Sequential(nn.Linear(parts, width), *[Residual(width) for _ in range(depth)], nn.Linear(width, 2))


def alloys(count=5000, parts=30):
    shares = torch.rand(count, parts).softmax(1)
    return shares, torch.stack([(shares * torch.arange(parts)).sum(1), shares.amax(1)], 1)
