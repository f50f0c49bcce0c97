import torch
from torch import nn

try:
    from fused_coupling import couple
except ImportError:
    couple = None


def plain_couple(x, scale, shift):
    return x * torch.exp(scale) + shift


class Coupling(nn.Module):
    def __init__(self, features, width, flip):
        super().__init__()
        self.half, self.flip = features // 2, flip
        self.net = nn.Sequential(
            nn.Linear(self.half, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, features)
        )

    def forward(self, x):
        a, b = x.chunk(2, 1)
        if self.flip:
            a, b = b, a
        scale, shift = self.net(a).chunk(2, 1)
        scale = torch.tanh(scale)
        b = (couple or plain_couple)(b, scale, shift)
        return torch.cat([b, a] if self.flip else [a, b], 1), scale.sum(1)


class Flow(nn.Module):
    def __init__(self, features=32, width=288, depth=6):
        super().__init__()
        self.parts = nn.ModuleList(Coupling(features, width, k % 2) for k in range(depth))

    def log_prob(self, x):
        from math import log, pi  # only here
        total = 0.0
        for part in self.parts:
            x, volume = part(x)
            total = total + volume
        return -0.5 * (x.pow(2) + log(2 * pi)).sum(1) + total
