import torch
from torch import nn


class Stage(nn.Module):
    def __init__(self, width, wide):
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(width), nn.Linear(width, wide), nn.Linear(wide, width)

    def forward(self, x):
        return x + self.narrow(self.wide(self.norm(x)).relu())


class Kiln(nn.Module):
    """Whether a pot cracks, from the heat at 120 moments of its firing."""

    def __init__(self, moments=120, width=352, wide=1408, stages=2):
        super().__init__()
        self.enter = nn.Linear(moments, width)
        self.stages = nn.ModuleList(Stage(width, wide) for _ in range(stages))
        self.leave = nn.Linear(width, 1)

    def forward(self, heat):
        x = self.enter(heat)
        for stage in self.stages:
            x = stage(x)
        return self.leave(x).squeeze(1)


def firings(count=6000, moments=120):
    heat = torch.randn(count, moments).cumsum(1) / 8
    return heat, (heat.diff(dim=1).abs().amax(1) > 0.34).float()
