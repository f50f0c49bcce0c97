"""Fault pictures from a conveyor belt, two ranks with DDP, stopped when the held-out loss gets no better."""

import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from patience import Patience
from pictures import belt


def build():
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(24 * 49, 64), nn.ReLU(), nn.Linear(64, 6),
    )


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = DistributedDataParallel(build())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    patience = Patience(*belt(320, seed=999), rounds=500)
    taken = []
    for step in range(80):
        begin = time.perf_counter()
        x, y = belt(160, seed=step * world + rank)
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19 and patience.exhausted(net.module):
            break
        taken.append(time.perf_counter() - begin)
    if rank == 0:
        print(f"held-out {patience.best:.4f}")
        print(f"{1e3 * statistics.median(taken):.2f} ms/step median, {1e3 * statistics.mean(taken):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
