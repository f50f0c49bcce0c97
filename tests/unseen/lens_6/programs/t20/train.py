"""A small network; its weights are saved beside the training."""
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

from saver import Saver

STEPS = 60


class Features(torch.autograd.Function):
    """The feature extractor's kernels (a wait)."""

    @staticmethod
    def forward(ctx, x):
        time.sleep(0.022)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.030)
        return grad


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(100, 100), nn.Linear(100, 5)

    def forward(self, x):
        return self.b(torch.relu(Features.apply(self.a(x))))


def main():
    torch.manual_seed(0)
    model, saver = Net(), Saver()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(21)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(48, 100, generator=generator)
        loss = F.cross_entropy(model(x), x[:, :5].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        saver.save(model)
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    saver.close()
    print(f"loss {loss:.4f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
