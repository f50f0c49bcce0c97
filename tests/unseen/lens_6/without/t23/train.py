"""Fine-tunes a head over a frozen table on two ranks (DDP)."""
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from ema import MovingAverage
from kernels import Tower

STEPS = 60


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(24_000, 128)
        self.table.requires_grad_(False)
        self.proj = nn.Linear(128, 128)
        self.out = nn.Linear(128, 2)

    def forward(self, ids):
        return self.out(Tower.apply(self.proj(self.table(ids).mean(1))))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Ranker())
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    ema = MovingAverage(model.module, 0.999) if rank == 0 else None
    generator = torch.Generator().manual_seed(rank)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        ids = torch.randint(0, 24_000, (32, 8), generator=generator)
        loss = F.cross_entropy(model(ids), ids[:, 0] % 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if ema is not None and step % 20 == 19:
            ema.update(model.module)
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
