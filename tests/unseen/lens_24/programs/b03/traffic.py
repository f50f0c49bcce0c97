from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Snapshot:
    """What the net is shown at once: the last day at all stops, and how the stops are linked."""

    counts: torch.Tensor
    hour: int
    links: torch.Tensor


class Town:
    def __init__(self, stops=2400, hours=400):
        place = torch.rand(stops, 2)
        near = torch.exp(-40 * torch.cdist(place, place))
        self.links = near / near.sum(1, keepdim=True)
        clock = torch.arange(hours) * (2 * torch.pi / 24)
        daily = 1 + (clock[None] + 6 * place[:, :1]).sin()
        self.counts = self.links @ torch.poisson(20 * daily).sub_(20).div_(20)

    def snapshot(self, hour, past=24):
        return Snapshot(self.counts[:, hour - past:hour], hour % 24, self.links), self.counts[:, hour]


class Flow(nn.Module):
    def __init__(self, past=24, width=48):
        super().__init__()
        self.hours = nn.Embedding(24, width)
        self.enter = nn.Linear(past, width)
        self.near = nn.Linear(width, width)
        self.far = nn.Linear(width, width)
        self.leave = nn.Linear(2 * width, 1)

    def forward(self, counts, hour, links):
        first = torch.relu(self.enter(counts) + self.hours.weight[hour])
        second = torch.relu(self.near(links @ first))
        third = torch.relu(self.far(links @ second))
        return self.leave(torch.cat([first, third], 1)).squeeze(1)
