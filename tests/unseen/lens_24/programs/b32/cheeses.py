import torch
from torch import nn


def weigh(count=4000, sensors=128):
    """What an electronic nose smells, and how many weeks the cheese has been lying."""
    days = torch.rand(count, 1) * 8
    smell = torch.sin(days * torch.rand(1, sensors)) + 0.2 * torch.randn(count, sensors)
    return {"smell": smell, "days": days}


class Ripeness(nn.Module):
    def __init__(self, sensors=128, width=448, depth=4):
        super().__init__()
        self.enter = nn.Linear(sensors, width)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU()) for _ in range(depth))
        self.leave = nn.Linear(width, 1)

    def forward(self, smell):
        x = self.enter(smell)
        for layer in self.layers:
            x = x + layer(x)
        return self.leave(x)
