import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from spectra import Spectra


def block(a, b, stride):
    return nn.Sequential(nn.Conv2d(a, b, 3, stride, 1), nn.ReLU())


class Leaves(nn.Module):
    """Tells leaves of trees apart."""

    def __init__(self, kinds=10):
        super().__init__()
        self.one, self.two = block(3, 96, 2), block(96, 128, 2)
        self.three, self.four = block(128, 160, 1), block(160, 160, 2)
        self.out = nn.Linear(160, kinds)

    def forward(self, x):
        return self.out(self.four(self.three(self.two(self.one(x)))).mean((2, 3)))


def main(steps=60, batch=64):
    torch.manual_seed(0)
    net, spectra = Leaves(), Spectra()
    for name in ("one", "two", "three", "four"):
        spectra.watch(name, getattr(net, name))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, fused=True)
    images, kinds = torch.randn(800, 3, 24, 24), torch.randint(0, 10, (800,))
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 800, (batch,))
        loss = F.cross_entropy(net(images[picked]), kinds[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    spectra.close()
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
