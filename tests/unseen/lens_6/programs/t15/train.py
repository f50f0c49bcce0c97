"""Each of two ranks trains its own experts; the gradients are clipped by their common norm."""
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

from clip import clip
from kernels import Products

STEPS = 60


class Experts(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(count)
        )

    def forward(self, x):
        return sum(expert(Products.apply(part)) for expert, part in zip(self.experts, x))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = Experts(width=64, count=4)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    generator = torch.Generator().manual_seed(50 + rank)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(4, 24, 64, generator=generator)
        loss = (model(x) - x[0]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        clip(parameters, limit=1.0)
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
