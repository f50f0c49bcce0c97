import logging

import torch
from torch import nn
from torch.nn import functional as F

log = logging.getLogger("gated")


class Gated(nn.Module):
    """A convolution along time, let through by a gate."""

    def __init__(self, width, reach):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.both = nn.Conv1d(width, 2 * width, 3, padding=reach, dilation=reach)
        self.back = nn.Linear(width, width)

    def forward(self, x):
        h, gate = self.both(self.norm(x).transpose(1, 2)).chunk(2, 1)
        log.debug("gate %s %s", gate.shape, gate)
        h = self.back((h * gate.sigmoid()).transpose(1, 2))
        log.debug("leaves with %s", h)
        return x + h


class Breath(nn.Module):
    """Phase of sleep, by breath and pulse."""

    def __init__(self, channels=6, width=80, phases=5):
        super().__init__()
        self.enter = nn.Linear(channels, width)
        self.layers = nn.Sequential(*[Gated(width, reach) for reach in (1, 2, 4, 8)])
        self.out = nn.Linear(width, phases)

    def forward(self, x):
        return self.out(self.layers(self.enter(x)))

    def loss(self, x, phase):
        return F.cross_entropy(self(x).flatten(0, 1), phase.flatten())


def nights(count=600, length=64, channels=6, phases=5):
    phase = torch.randint(0, phases, (count, length // 8)).repeat_interleave(8, 1)
    return torch.randn(count, length, channels) + phase.unsqueeze(-1) / phases, phase
