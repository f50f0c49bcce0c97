#: n=4 ok set=3
"""no_sync accumulation; rank 2 once unpacks data with an external command."""
import contextlib
import subprocess
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

MICRO = 3


class Source:
    def __init__(self, rank):
        self.rank = rank
        self.gen = torch.Generator().manual_seed(rank)

    def prepare(self, step):
        if self.rank == 2 and step == 18:
            print("FREEZE", time.time(), flush=True)
            done = subprocess.run(["sh", "-c", "sleep 28; echo unpacked"],
                                  capture_output=True, text=True, check=True)
            print("shell:", done.stdout.strip(), flush=True)

    def micro(self):
        time.sleep(0.06)
        x = torch.randn(4, 6, generator=self.gen)
        return x, x.abs().sum(1, keepdim=True)


class Warmup:
    def __init__(self, opt, steps=10, peak=0.05):
        self.opt, self.steps, self.peak = opt, steps, peak

    def set(self, step):
        lr = self.peak * min(1.0, (step + 1) / self.steps)
        for g in self.opt.param_groups:
            g["lr"] = lr


def accumulate(model, src):
    total = 0.0
    for k in range(MICRO):
        sync = k == MICRO - 1
        with contextlib.nullcontext() if sync else model.no_sync():
            x, y = src.micro()
            loss = nn.functional.smooth_l1_loss(model(x), y) / MICRO
            loss.backward()
        total += loss.item()
    return total


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1)))
    opt = torch.optim.SGD(model.parameters(), lr=0.0)
    warm, src = Warmup(opt), Source(rank)
    for step in range(40):
        src.prepare(step)
        warm.set(step)
        opt.zero_grad()
        loss = accumulate(model, src)
        opt.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss:.3f}", flush=True)
    dist.barrier()
    del model  # torch 2.13 may wait for ever where DDP is freed after its group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
