import torch
from torch import nn


class Pass(nn.Module):
    """One round of messages along the bars of a truss."""

    def __init__(self, width):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width))
        self.turn = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, x, source, target):
        told = torch.zeros_like(x).index_add(0, target, self.message(torch.cat([x[source], x[target]], 1)))
        return x + self.turn(torch.cat([x, told], 1))


class Truss(nn.Module):
    def __init__(self, width=64, rounds=3):
        super().__init__()
        self.enter, self.out = nn.Linear(4, width), nn.Linear(width, 2)
        self.rounds = nn.ModuleList([Pass(width) for _ in range(rounds)])

    def forward(self, load, source, target):
        x = self.enter(load)
        for part in self.rounds:
            x = part(x, source, target)
        return self.out(x)


def truss(knots=1500, bars=5000):
    """Knots with a place and a force each, and how far they give way."""
    source, target = torch.randint(0, knots, (2, bars))
    load = torch.randn(knots, 4)
    give = torch.zeros(knots, 2).index_add(0, target, load[source, 2:]) / 3
    return load, source, target, give
