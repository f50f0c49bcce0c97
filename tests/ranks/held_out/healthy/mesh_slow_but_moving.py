#: n=8 ok exit=0
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


class Grid:
    def __init__(self):
        self.rank = dist.get_rank()
        for name, bit in (("tp", 1), ("cp", 2), ("dp", 4)):
            for low in range(8):
                if not low & bit:
                    g = dist.new_group([low, low | bit], timeout=timedelta(minutes=10))
                    if self.rank in (low, low | bit):
                        setattr(self, name, g)


class Reader:
    """The cold tier is slower for a while, then the cache is warm again."""

    def __init__(self, rank):
        self.rank = rank
        self.cold_for = random.Random(time.time_ns()).uniform(10, 45)
        self.cold_until = None

    def read(self, step):
        if self.rank == 5 and step == 18:
            self.cold_until = time.time() + self.cold_for
        cold = self.cold_until is not None and time.time() < self.cold_until
        time.sleep(1.1 if cold else 0.13)
        return torch.randn(4, 12)


class Block(nn.Module):
    def __init__(self, grid):
        super().__init__()
        self.grid = grid
        self.fc = nn.Linear(12, 12)

    def forward(self, x):
        y = torch.tanh(self.fc(x))
        s = y.detach().clone()
        dist.all_reduce(s, group=self.grid.tp)
        return y + 0.5 * s


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    grid = Grid()
    torch.manual_seed(grid.rank & 1)
    model = Block(grid)
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    reader = Reader(grid.rank)
    for step in range(70):
        x = reader.read(step)
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, group=grid.cp)
            dist.all_reduce(p.grad, group=grid.dp)
        opt.step()
        if grid.rank == 0 and step % 10 == 0:
            print("step", step, loss.item(), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
