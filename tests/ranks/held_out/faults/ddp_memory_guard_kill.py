#: n=4 ranks=1 cause=killed tier=error exit=1
import os
import random
import signal
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def resident_mib():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class MemoryGuard:
    """Leaves at once when the process outgrows its budget, before the node starts to swap."""

    def __init__(self, rank, budget_mib):
        self.rank, self.budget = rank, budget_mib
        self.peak = 0.0

    def check(self):
        now = resident_mib()
        self.peak = max(self.peak, now)
        if now > self.budget:
            print("FREEZE", time.time(), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)


class FeatureStore:
    def __init__(self, leak_at):
        self.leak_at = leak_at
        self.kept = []

    def fetch(self, step):
        time.sleep(0.15)
        x = torch.randn(32, 40)
        if self.leak_at is not None and step >= self.leak_at:
            self.kept.append(torch.ones(80, 1024, 1024, dtype=torch.uint8))
        return x, x[:, :8].sum(1, keepdim=True)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.BatchNorm1d(64), nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        return self.head(self.trunk(x))


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(6)
    model = DDP(Regressor())
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(opt, 20, 0.5)
    leak_at = random.Random(171).randint(18, 28)
    store = FeatureStore(leak_at if rank == 1 else None)
    x, y = store.fetch(-1)
    guard = MemoryGuard(rank, budget_mib=1e9)
    for step in range(80):
        x, y = store.fetch(step)
        if step == 15:
            guard.budget = resident_mib() + 100
        if rank == 1:
            guard.check()
        loss = nn.functional.huber_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        scheduler.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
