import copy

import torch
from torch import nn


class DepthNet(nn.Module):
    """How far away each pixel is."""

    def __init__(self, width=28):
        super().__init__()
        self.one = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU())
        self.two = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU())
        self.three = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU())
        self.back = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU())
        self.out = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(2 * width, 1, 3, padding=1))

    def forward(self, x):
        a = self.two(self.one(x))
        return self.out(a + self.back(self.three(a)))


class Steady:
    """A slow copy of the weights, kept beside the model."""

    def __init__(self, model, rate=0.99):
        self.rate, self.weights = rate, copy.deepcopy(model.state_dict())

    @torch.no_grad()
    def update(self, model):
        for name, value in model.state_dict().items():
            self.weights[name].lerp_(value, 1 - self.rate)

    def snapshot(self):
        return {name: value.clone() for name, value in self.weights.items()}


def rooms(count, generator, side=32):
    slope = torch.rand(count, 2, 1, 1, generator=generator)
    axis = torch.linspace(0, 1, side)
    depth = slope[:, :1] * axis[:, None] + slope[:, 1:] * axis
    shade = torch.cat([depth, 1 - depth, depth.square()], 1)
    return shade + 0.1 * torch.randn(count, 3, side, side, generator=generator), depth
