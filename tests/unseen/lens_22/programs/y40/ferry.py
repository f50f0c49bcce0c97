import torch
from torch import nn


class Pilot(nn.Module):
    """Chooses how to steer from what is seen of the river."""

    def __init__(self, seen=48, ways=9, width=256):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(seen, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, ways))

    def forward(self, seen):
        return self.net(seen)


class Judge(nn.Module):
    """Guesses how well the crossing will go."""

    def __init__(self, seen=48, width=256):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(seen, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, seen):
        return self.net(seen).squeeze(1)


class River:
    def __init__(self, seen=48, ways=9):
        self.stream = torch.randn(seen, ways)

    def reward(self, seen, way):
        return (seen @ self.stream).tanh().gather(1, way.unsqueeze(1)).squeeze(1)
