import copy

import torch
from torch import nn


def encoder(c=28, out=128):
    return nn.Sequential(
        nn.Conv2d(3, c, 3, stride=2, padding=1), nn.BatchNorm2d(c), nn.ReLU(),
        nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(),
        nn.Conv2d(c, 2 * c, 3, stride=2, padding=1), nn.BatchNorm2d(2 * c), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * c, out),
    )


class Pair(nn.Module):
    def __init__(self, momentum=0.99):
        super().__init__()
        self.online = encoder()
        self.guess = nn.Sequential(nn.Linear(128, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 128))
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.momentum = momentum
        self.pairs = list(self.target.parameters()), list(self.online.parameters())

    def forward(self, a, b):
        both = torch.cat([a, b])
        guess = self.guess(self.online(both))
        with torch.no_grad():
            wanted = self.target(both)
        wanted = torch.cat([wanted[len(a):], wanted[: len(a)]])
        return 2 - 2 * nn.functional.cosine_similarity(guess, wanted).mean()

    @torch.no_grad()
    def follow(self):
        torch._foreach_lerp_(self.pairs[0], self.pairs[1], 1 - self.momentum)
