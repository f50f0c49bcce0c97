"""A plain network of six layers on an accelerator."""
import time

import torch
from torch import nn


class Product(torch.autograd.Function):
    """A layer's kernels (waits)."""

    @staticmethod
    def forward(ctx, x):
        time.sleep(0.003)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.006)
        return grad


class Layer(nn.Linear):
    def forward(self, x):
        return super().forward(Product.apply(x))


def build(width=22, depth=5):
    layers = []
    for _ in range(depth):
        layers += [Layer(width, width), nn.ReLU()]
    return nn.Sequential(*layers, Layer(width, 1))
