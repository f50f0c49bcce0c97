#: n=8 ok exit=0
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

LIMIT = timedelta(minutes=10)


class Registry:
    def __init__(self):
        self.rank, self.groups = dist.get_rank(), {}
        for axis, stride in (("tp", 1), ("ep", 2), ("dp", 4)):
            for base in range(8):
                if base // stride % 2 == 0:
                    self.add(axis, [base, base + stride])

    def add(self, name, ranks):
        g = dist.new_group(ranks, timeout=LIMIT)
        if self.rank in ranks:
            self.groups[name] = g


class Experts(nn.Module):
    def __init__(self, registry):
        super().__init__()
        self.registry = registry
        self.dense, self.expert = nn.Linear(12, 12), nn.Linear(12, 12)

    def forward(self, x):
        h = torch.relu(self.dense(x))
        s = h.detach().clone()
        dist.all_reduce(s, group=self.registry.groups["tp"])
        h = h + 0.1 * s
        if "experts" in self.registry.groups:
            routed = h.detach().clone()
            dist.all_reduce(routed, group=self.registry.groups["experts"])
            h = h + 0.01 * routed
        return h + self.expert(h)


def load_expert_weights(rank):
    """only one host has to convert the old expert layout"""
    if rank != 3:
        return
    end = time.time() + random.Random(time.time_ns()).uniform(10, 45)
    w = torch.randn(12, 12)
    while time.time() < end:
        w = torch.linalg.qr(w + 0.01 * torch.randn(12, 12)).Q
        time.sleep(0.002)


def main():
    dist.init_process_group("gloo", timeout=LIMIT)
    registry = Registry()
    torch.manual_seed(registry.rank % 4)
    model = Experts(registry)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(40):
        if step == 20:
            load_expert_weights(registry.rank)
            registry.add("experts", [1, 3, 5, 7])
        time.sleep(0.15)
        x = torch.randn(4, 12)
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, group=registry.groups["dp"])
            dist.all_reduce(p.grad, group=registry.groups["ep"])
        opt.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
