"""Ripe or not: pictures of apples, DDP."""
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from journal import open_journal


def apple_net():
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, 2, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 12 * 12, 64), nn.ReLU(), nn.Linear(64, 2))


def fit(rank, folder, steps=62):
    log = open_journal(rank, folder)
    g = torch.Generator().manual_seed(rank)
    ddp = DDP(apple_net())
    opt = torch.optim.SGD(ddp.parameters(), lr=0.01)
    stamps = []
    for step in range(steps):
        x = torch.rand(32, 3, 48, 48, generator=g)
        y = (x[:, 0].mean((1, 2)) > 0.5).long()
        loss = nn.functional.cross_entropy(ddp(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0:
            log.info("step %d loss %.4f lr %.3g", step, loss.item(), opt.param_groups[0]["lr"])
        stamps.append(time.perf_counter())
    logging_handlers = log.handlers[:]
    for h in logging_handlers:
        h.close()
        log.removeHandler(h)
    return np.diff(stamps)[3:] * 1e3


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        ms = fit(dist.get_rank(), folder)
    if dist.get_rank() == 0:
        print(f"{np.median(ms):.2f} ms/step median, {ms.mean():.2f} ms/step", flush=True)
    dist.barrier()
    dist.destroy_process_group()
