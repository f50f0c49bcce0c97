import time
import torch
from torch import nn


class Kernel(torch.autograd.Function):
    """Stands for the trunk's kernels: 15 ms forward, 45 ms backward."""
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.015)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.045)
        return grad


class Trunk(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inp = nn.Linear(width, width)

    def forward(self, x):
        return Kernel.apply(torch.tanh(self.inp(x)))
