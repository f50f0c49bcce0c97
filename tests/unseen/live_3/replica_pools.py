"""Replicas average in pairs; when a pair drifts from the data, the whole house averages."""
import time

import torch
import torch.distributed as dist
from torch import nn


def build_circles(rank):
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    house = dist.new_group([0, 1, 2, 3])
    return pairs[rank // 2], house


class Replica:
    def __init__(self, rank):
        self.rank = rank
        self.pair, self.house = build_circles(rank)
        torch.manual_seed(rank // 2)
        self.net = nn.Linear(10, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.02)
        self.debt = 0.0

    def pick_circle(self):
        if self.debt > 20.0:
            return self.house  #: LINE
        return self.pair

    def step(self, i):
        g = torch.Generator().manual_seed(i * 4 + self.rank)
        x = torch.randn(32, 10, generator=g)
        y = x.sum(1, keepdim=True)
        if self.rank == 2 and i > 15:
            y = y + 6.5
        loss = nn.functional.mse_loss(self.net(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.debt = 0.7 * self.debt + max(0.0, loss.item() - 18.0)
        circle = self.pick_circle()
        for p in self.net.parameters():
            dist.all_reduce(p.grad, group=circle)
            p.grad /= dist.get_world_size(circle)
        self.opt.step()
        return loss.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    replica = Replica(rank)
    for i in range(150):
        time.sleep(0.1)
        loss = replica.step(i)
        if i % 5 == 0:
            print(f"[{rank}] {i} loss {loss:.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
