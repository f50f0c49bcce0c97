import torch
from torch import nn


class Tracks(nn.Module):
    """How fast an animal went, from its tracks in the snow."""

    def __init__(self, width=40):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2, bias=False), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(2 * width * 36, 64, bias=False), nn.ReLU(), nn.Linear(64, 1, bias=False),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def snow(count=1200, side=24):
    speed = torch.rand(count)
    ways = torch.linspace(0, 1, side)
    prints = ((10 + 30 * speed[:, None, None]) * (ways[:, None] + 0.3 * ways)).sin().gt(0.7).float()
    return prints.unsqueeze(1) + 0.2 * torch.randn(count, 1, side, side), speed
