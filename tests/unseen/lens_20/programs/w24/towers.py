import logging

import torch
from torch import nn

log = logging.getLogger("towers")


class Cross(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, start, x):
        crossed = start * self.mix(x)
        log.debug("crossed: %s", crossed)
        return x + crossed


class Towers(nn.Module):
    """Will a visitor book the room? From features of both and their products."""

    def __init__(self, width=384):
        super().__init__()
        self.crosses = nn.ModuleList(Cross(width) for _ in range(4))
        self.deep = nn.Sequential(nn.Linear(width, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU())
        self.out = nn.Linear(width + 384, 1)

    def forward(self, x):
        crossed = x
        for cross in self.crosses:
            crossed = cross(x, crossed)
        if log.isEnabledFor(logging.DEBUG):
            log.debug(f"leaves with {crossed} of {x}")
        return self.out(torch.cat([crossed, self.deep(x)], 1)).squeeze(1)
