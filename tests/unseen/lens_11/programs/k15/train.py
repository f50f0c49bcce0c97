"""Surrogate model of a wind tunnel: pressure on 1024 points from the shape. Keeps the best weights."""
import copy

import torch
from torch import nn

from pace import Pace

STEPS = 64


def surrogate():
    return nn.Sequential(nn.Linear(96, 1536), nn.SiLU(), nn.Linear(1536, 1536), nn.SiLU(), nn.Linear(1536, 1536), nn.SiLU(),
                         nn.Linear(1536, 1024))


class Best:
    """Weights at the lowest smoothed loss."""

    def __init__(self, smooth=0.9):
        self.smooth, self.value, self.lowest, self.weights = smooth, None, float("inf"), None

    def see(self, model, loss):
        self.value = loss if self.value is None else self.smooth * self.value + (1 - self.smooth) * loss
        if self.value < self.lowest:
            self.lowest = self.value
            self.weights = copy.deepcopy(model.state_dict())  #: LINE


def main():
    torch.manual_seed(0)
    shapes = torch.randn(2048, 96)
    pressure = torch.tanh(shapes @ torch.randn(96, 1024) / 10)
    model = surrogate()
    opt = torch.optim.SGD(model.parameters(), lr=0.3)
    best = Best()
    pace = Pace()
    for step in range(STEPS):
        pick = torch.randint(0, 2048, (80,))
        loss = nn.functional.mse_loss(model(shapes[pick]), pressure[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()
        best.see(model, loss.item())
        pace.tick()
    model.load_state_dict(best.weights)
    print(f"lowest {best.lowest:.5f}")
    pace.report()


if __name__ == "__main__":
    main()
