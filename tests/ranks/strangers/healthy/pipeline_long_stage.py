#: n=4 ok exit=0
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

MICRO, DIM = 4, 12


class PipelineStage(nn.Module):
    def __init__(self, rank):
        super().__init__()
        torch.manual_seed(rank)
        self.f = nn.Sequential(nn.Linear(DIM, DIM), nn.Tanh())

    def forward(self, x):
        return self.f(x)


class Schedule:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.stage = PipelineStage(rank)
        self.opt = torch.optim.SGD(self.stage.parameters(), lr=0.01)
        self.odd = random.Random(time.time_ns()).uniform(10, 45)

    def recalibrate(self, x):
        end = time.time() + self.odd
        with torch.no_grad():
            while time.time() < end:
                for _ in range(50):
                    x = self.stage(x)
                time.sleep(0.01)

    def forward(self, step, m):
        x = torch.randn(3, DIM)
        if self.rank > 0:
            dist.recv(x, self.rank - 1, tag=m)
        if step == 20 and m == 2 and self.rank == 2:
            self.recalibrate(x)
        x.requires_grad_(True)
        y = self.stage(x)
        time.sleep(0.012)
        if self.rank < self.world - 1:
            dist.send(y.detach(), self.rank + 1, tag=m)
        return x, y

    def backward(self, m, x, y):
        g = torch.ones_like(y) / y.numel()
        if self.rank < self.world - 1:
            dist.recv(g, self.rank + 1, tag=100 + m)
        y.backward(g)
        if self.rank > 0:
            dist.send(x.grad, self.rank - 1, tag=100 + m)

    def step(self, step):
        kept = [self.forward(step, m) for m in range(MICRO)]
        for m, (x, y) in enumerate(kept):
            self.backward(m, x, y)
        self.opt.step()
        self.opt.zero_grad()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    schedule = Schedule(rank, world)
    for step in range(45):
        schedule.step(step)
        if rank == 0 and step % 10 == 0:
            print("step", step, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
