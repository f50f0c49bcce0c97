"""A two-layer model on two ranks with planned garbage collection."""
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from housekeeping import Collector

STEPS = 60


class Block(torch.autograd.Function):
    """The block's kernels (a wait)."""

    @staticmethod
    def forward(ctx, x):
        time.sleep(0.018)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.032)
        return grad


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        return self.b(Block.apply(self.a(x)))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    history = [{"row": [i]} for i in range(50_000)]
    model = DDP(Model())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    collector = Collector(every=5)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x = torch.full((16, 64), float(len(history[step]["row"]) + rank))
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        collector.run(step)
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    if rank == 0:
        print(f"loss {loss:.4f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
