"""Weather maps, two ranks, the optimizer's state in halves."""
import time

import torch
import torch.distributed as dist
from torch import nn

from halves import Halves

STEPS = 24


class Forecast(nn.Module):
    def __init__(self, grid=1000, wide=1100):
        super().__init__()
        self.inward = nn.Linear(grid, wide)
        self.middle = nn.Linear(wide, wide)
        self.outward = nn.Linear(wide, grid)

    def forward(self, today):
        time.sleep(0.02)                         # kernels elsewhere
        h = torch.relu(self.inward(today))
        return self.outward(torch.relu(self.middle(h)))


class Archive:
    def __init__(self, rank):
        self.rng = torch.Generator().manual_seed(rank)

    def day(self):
        time.sleep(0.045)                        # the archive answers
        today = torch.randn(2, 1000, generator=self.rng)
        return today, today.roll(1, -1)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(3)
    net = Forecast()
    halves = Halves(net.parameters(), rate=0.05)
    archive = Archive(dist.get_rank())
    dist.barrier()
    begin = time.perf_counter()
    work = halves.collect()
    for step in range(STEPS):
        today, tomorrow = archive.day()
        work.wait()
        loss = (net(today) - tomorrow).pow(2).mean()
        loss.backward()
        halves.update()
        work = halves.collect()
    ms = (time.perf_counter() - begin) / STEPS * 1e3
    work.wait()
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{ms:.2f} ms/step")
    dist.destroy_process_group()


main()
