import torch
from torch import nn


class Painter(nn.Module):
    def __init__(self, z=48, c=24):
        super().__init__()
        self.start = nn.Linear(z, 4 * c * 16)
        up = lambda i, o: nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
        self.up = nn.Sequential(up(4 * c, 2 * c), up(2 * c, c), up(c, c))
        self.last = nn.Conv2d(c, 3, 3, padding=1)
        self.c = c

    def forward(self, z):
        return torch.tanh(self.last(self.up(self.start(z).view(-1, 4 * self.c, 4, 4))))


class Critic(nn.Module):
    def __init__(self, c=40):
        super().__init__()
        down = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 4, 2, 1), nn.LeakyReLU(0.2))
        self.body = nn.Sequential(down(3, c), nn.Conv2d(c, c, 3, 1, 1), nn.LeakyReLU(0.2), down(c, 2 * c), down(2 * c, 4 * c))
        self.score = nn.Linear(4 * c * 16, 1)

    def forward(self, x):
        return self.score(self.body(x).flatten(1)).squeeze(1)
