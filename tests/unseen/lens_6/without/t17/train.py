"""A plain network; its losses go to a metrics service."""
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

from metrics import Metrics

STEPS = 64


class Backbone(torch.autograd.Function):
    """The backbone's kernels (a wait)."""

    @staticmethod
    def forward(ctx, x):
        time.sleep(0.016)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.026)
        return grad


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.out = nn.Linear(32, 64), nn.Linear(64, 4)

    def forward(self, x):
        return self.out(Backbone.apply(torch.relu(self.inp(x))))


def main():
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    metrics = Metrics()
    generator = torch.Generator().manual_seed(9)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(32, 32, generator=generator)
        loss = F.cross_entropy(model(x), x[:, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics.add(step, loss.item())
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"{metrics.sent} rows sent")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
