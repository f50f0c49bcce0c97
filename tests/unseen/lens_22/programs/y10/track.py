import torch
from torch import nn


class Track:
    """Eight toy cars that try to stay on a winding track."""

    def __init__(self, cars=8, sight=24):
        self.state = torch.randn(cars, sight)
        self.turn = torch.linalg.qr(torch.randn(sight, sight))[0]
        self.push = 0.3 * torch.randn(5, sight)

    def step(self, move):
        before = self.state
        self.state = (before @ self.turn + self.push[move] + 0.05 * torch.randn_like(before)).clamp(-3, 3)
        return before, move, -self.state[:, :4].square().mean(1), self.state


class Driver(nn.Module):
    def __init__(self, sight=24, width=512, moves=5):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(sight, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                  nn.Linear(width, width), nn.ReLU())
        self.worth, self.better = nn.Linear(width, 1), nn.Linear(width, moves)

    def forward(self, x):
        x = self.body(x)
        better = self.better(x)
        return self.worth(x) + better - better.mean(1, keepdim=True)
