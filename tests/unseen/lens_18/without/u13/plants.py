import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self, sensors, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(sensors, width), nn.SiLU(), nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(),
            nn.LayerNorm(width), nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.net(x)


class Plants(nn.Module):
    """Output of each of the solar plants of a region, by a small network for each."""

    def __init__(self, plants=4, sensors=32, width=384):
        super().__init__()
        self.experts = nn.ModuleList(Expert(sensors, width) for _ in range(plants))

    def forward(self, x):
        return torch.cat([expert(part) for expert, part in zip(self.experts, x.unbind(1))], 1)
