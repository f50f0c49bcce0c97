import torch
from torch import nn


def up(a, b):
    return nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())


def down(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 4, stride=2, padding=1), nn.LeakyReLU(0.2))


class Generator(nn.Module):
    def __init__(self, noise=64, c=32):
        super().__init__()
        self.first = nn.Linear(noise, 2 * c * 16)
        self.body = nn.Sequential(up(2 * c, 2 * c), up(2 * c, c), up(c, c))
        self.last = nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, z):
        h = self.first(z).unflatten(1, (-1, 4, 4))
        return torch.tanh(self.last(self.body(h)))


class Discriminator(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.body = nn.Sequential(down(3, c), down(c, 2 * c), down(2 * c, 4 * c))
        self.last = nn.Linear(4 * c * 16, 1)

    def forward(self, x):
        return self.last(self.body(x).flatten(1)).squeeze(1)
