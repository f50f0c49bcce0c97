#: n=4 ranks=* cause=cycle_p2p tier=error
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

MICRO, BATCH, WIDTH = 6, 4, 20


class Stage:
    def __init__(self, rank, world):
        torch.manual_seed(rank)
        self.rank, self.world = rank, world
        self.net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.opt = torch.optim.SGD(self.net.parameters(), lr=1e-2)
        self.first, self.last = rank == 0, rank == world - 1
        self.saved = []

    def recv_forward(self):
        if self.first:
            return torch.randn(BATCH, WIDTH)
        x = torch.empty(BATCH, WIDTH)
        dist.recv(x, self.rank - 1)
        return x

    def send_forward(self, y):
        if not self.last:
            dist.send(y.detach(), self.rank + 1)  #: LINE

    def recv_backward(self, y):
        if self.last:
            return torch.ones_like(y) / y.numel()
        g = torch.empty(BATCH, WIDTH)
        dist.recv(g, self.rank + 1)
        return g

    def send_backward(self, grad):
        if not self.first:
            dist.send(grad, self.rank - 1)  #: LINE

    def forward_one(self):
        x = self.recv_forward().requires_grad_(True)
        time.sleep(0.008)
        y = self.net(x)
        self.saved.append((x, y))
        self.send_forward(y)

    def backward_one(self):
        x, y = self.saved.pop(0)
        y.backward(self.recv_backward(y))
        time.sleep(0.008)
        self.send_backward(x.grad)


def run_gpipe(stage):
    for _ in range(MICRO):
        stage.forward_one()
    for _ in range(MICRO):
        stage.backward_one()


def run_one_f_one_b(stage):
    warmup = min(stage.world - stage.rank - 1, MICRO)
    for _ in range(warmup):
        stage.forward_one()
    for _ in range(MICRO - warmup):
        stage.forward_one()
        stage.backward_one()
    for _ in range(warmup):
        stage.backward_one()


def pick_schedule(step, memory_plan_at):
    return run_gpipe if step < memory_plan_at else run_one_f_one_b


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    stage = Stage(rank, world)
    memory_plan_at = random.Random(4444).randint(16, 28)
    for step in range(60):
        if step == memory_plan_at and rank == 1:
            print("FREEZE", time.time(), flush=True)
        stage.opt.zero_grad()
        pick_schedule(step, memory_plan_at)(stage)
        stage.opt.step()
        if rank == world - 1 and step % 10 == 0:
            print("finished step", step, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
