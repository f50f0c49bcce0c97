"""A trunk and a wide head on two ranks; the gradients travel while the backward goes on."""
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from overlap import GradientAverage

STEPS = 60
CLASSES = 10_000


class Kernels(torch.autograd.Function):
    """The trunk's kernels on its accelerator (waits)."""

    @staticmethod
    def forward(ctx, x):
        time.sleep(0.012)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.042)
        return grad


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(64, 256)
        self.head = nn.Linear(256, CLASSES, bias=False)

    def forward(self, x):
        return self.head(torch.tanh(Kernels.apply(self.trunk(x))))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Classifier()
    average = GradientAverage(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(rank)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(8, 64, generator=generator)
        y = torch.randint(0, CLASSES, (8,), generator=generator)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        average.finish()
        optimizer.step()
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    if rank == 0:
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
