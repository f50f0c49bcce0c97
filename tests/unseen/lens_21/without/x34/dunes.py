import torch
from torch import nn


def up(inner, outer):
    return [nn.Upsample(scale_factor=2), nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU()]


class Generator(nn.Module):
    """Makes a piece of a dune field out of noise."""

    def __init__(self, noise=32, width=32):
        super().__init__()
        self.begin = nn.Linear(noise, 4 * width * 16)
        self.net = nn.Sequential(
            nn.Unflatten(1, (4 * width, 4, 4)), *up(4 * width, 2 * width), *up(2 * width, width),
            nn.Conv2d(width, 1, 3, padding=1), nn.Tanh(),
        )

    def forward(self, z):
        return self.net(self.begin(z))


class Critic(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(width, 2 * width, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(2 * width * 16, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def fields(count, side=16):
    angle, place = torch.rand(2, count, 1, 1, 1)
    line = torch.linspace(0, 9, side)
    return (line.view(1, 1, 1, -1) * (1 + angle) + line.view(1, 1, -1, 1) * angle + 6.3 * place).sin()
