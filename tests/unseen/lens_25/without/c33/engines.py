import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class EngineWear(nn.Module):
    """From 120 sensors of a jet engine to the flights it has left."""

    def __init__(self, sensors=120, width=320, depth=4):
        super().__init__()
        self.stem = nn.Linear(sensors, width)
        self.body = nn.Sequential(*(Residual(width) for _ in range(depth)))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.body(self.stem(x))).squeeze(1)


def flights(rank, count=8192, sensors=120):
    made = torch.Generator().manual_seed(100 + rank)
    weights = torch.randn(sensors, generator=torch.Generator().manual_seed(7))
    x = torch.randn(count, sensors, generator=made)
    y = (x @ weights / 11).sin() + 0.1 * torch.randn(count, generator=made)
    return x, y
