import time

import torch


class Stage:
    """One stage whose kernels run on a device; the host waits for the device's time."""

    def __init__(self, n, ms):
        self.weight = torch.zeros(n)
        self.grad = torch.zeros(n)
        self.ms = ms

    def forward(self, x):
        time.sleep(self.ms / 2000)
        return x + self.weight[: x.numel()]

    def backward(self, g):
        time.sleep(self.ms / 1000)
        self.grad.fill_(float(g[0]) * 1e-3)
        return g * 0.99

    def update(self, lr):
        self.weight.add_(self.grad, alpha=-lr)
