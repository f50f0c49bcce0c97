import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from pool import Pool


class Cell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Conv1d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(4, width)

    def forward(self, x):
        return x + F.gelu(self.norm(self.mix(x)))


class Sleep(nn.Module):
    """The stage of sleep from a piece of an EEG."""

    def __init__(self, leads=6, width=64, cells=8, stages=5):
        super().__init__()
        self.first = nn.Conv1d(leads, width, 7, 4, 3)
        self.cells = nn.Sequential(*(Cell(width) for _ in range(cells)))
        self.last = nn.Linear(width, stages)

    def forward(self, waves):
        return self.last(self.cells(self.first(waves)).mean(2))


def nights(rank, count=1200, leads=6, length=192, stages=5):
    draw = torch.Generator().manual_seed(2)
    shapes = torch.randn(stages, leads, length, generator=draw)
    draw.manual_seed(50 + rank)
    stage = torch.randint(0, stages, (count,), generator=draw)
    return shapes[stage] + 2 * torch.randn(count, leads, length, generator=draw), stage


def main(steps=60, batch=32):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Sleep()
    pool = Pool(model.parameters())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    waves, stages = nights(dist.get_rank())
    draw = torch.Generator().manual_seed(dist.get_rank())
    times, began = [], time.perf_counter()
    for step in range(steps):
        picked = torch.randint(0, len(stages), (batch,), generator=draw)
        loss = F.cross_entropy(model(waves[picked]), stages[picked])
        pool.clear()
        loss.backward()
        pool.mean()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
