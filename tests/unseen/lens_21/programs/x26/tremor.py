import torch
from torch import nn


class Tremor(nn.Module):
    """Goes on with what a seismograph has written."""

    def __init__(self, channels=3, width=88):
        super().__init__()
        self.memory, self.out = nn.GRU(channels, width, batch_first=True), nn.Linear(width, channels)

    def forward(self, x, state):
        seen, state = self.memory(x, state)
        return self.out(seen), state


def records(count=400, length=72, channels=3):
    clock = torch.arange(length + 1).view(1, -1, 1)
    pace, phase = torch.rand(2, count, 1, channels)
    return (clock * (0.1 + pace / 2) + 6.3 * phase).sin() * (1 + 0.1 * torch.randn(count, length + 1, channels))
