"""Grades of apples from spectra, two ranks with DDP. A short check and a save in the middle and at the end."""

import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from apples import spectra
from check import accuracy, keep


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = DistributedDataParallel(nn.Sequential(nn.Conv1d(1, 32, 7, stride=2), nn.ReLU(), nn.Conv1d(32, 48, 5, stride=2), nn.ReLU(), nn.AdaptiveMaxPool1d(8), nn.Flatten(), nn.Linear(384, 5)))
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    held = spectra(64, 10**6)
    times = []
    for step in range(100):
        begin = time.perf_counter()
        x, grade = spectra(160, step * world + rank)
        loss = nn.functional.cross_entropy(net(x), grade)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            right = accuracy(net.module, *held)
            if rank == 0:
                keep(net.module, step, "apples.pt")
                print(f"step {step}: {right:.2f} right")
        times.append(1e3 * (time.perf_counter() - begin))
    if rank == 0:
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
