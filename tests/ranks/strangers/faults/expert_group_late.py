#: n=8 ranks=3 cause=missing_group tier=error
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

LIMIT = timedelta(minutes=10)


class ParallelState:
    def __init__(self):
        self.rank = dist.get_rank()
        self.groups = {}
        for axis, stride in (("tp", 1), ("ep", 2), ("dp", 4)):
            for base in range(8):
                if base // stride % 2 == 0:
                    self.create(axis, [base, base + stride])

    def create(self, name, ranks):
        group = dist.new_group(ranks, timeout=LIMIT)
        if self.rank in ranks:
            self.groups[name] = group


class Layer(nn.Module):
    def __init__(self, state, width=16):
        super().__init__()
        self.state = state
        self.dense = nn.Linear(width, width)
        self.expert = nn.Linear(width, width)
        self.use_expert = False

    def forward(self, x):
        y = torch.relu(self.dense(x))
        shared = y.detach().clone()
        dist.all_reduce(shared, group=self.state.groups["tp"])
        y = y + 0.1 * shared
        return y + self.expert(y) if self.use_expert else y + 0 * self.expert(y)


class ExpertSchedule:
    """Experts join after the dense warm-up; odd ranks host them."""

    hosts = [1, 3, 5, 7]

    def __init__(self, state, layer, start, frozen_layers=()):
        self.state, self.layer, self.start = state, layer, start
        self.frozen = state.rank in frozen_layers

    def apply(self, step):
        if step != self.start:
            return
        if self.frozen:
            print("FREEZE", time.time(), flush=True)
            return  #: LINE
        self.state.create("experts", self.hosts)
        if self.state.rank in self.hosts:
            self.layer.use_expert = True


def average_gradients(layer, state):
    flat = torch.cat([p.grad.flatten() for p in layer.parameters()])
    dist.all_reduce(flat, group=state.groups["dp"])  #: LINE
    flat /= 2
    at = 0
    for p in layer.parameters():
        p.grad.copy_(flat[at : at + p.numel()].view_as(p))
        at += p.numel()


def main():
    dist.init_process_group("gloo", timeout=LIMIT)
    state = ParallelState()
    torch.manual_seed(state.rank % 4)
    layer = Layer(state)
    opt = torch.optim.AdamW(layer.parameters(), lr=1e-3)
    schedule = ExpertSchedule(state, layer, random.Random(808).randint(16, 27), frozen_layers=(3,))
    for step in range(80):
        schedule.apply(step)
        time.sleep(0.16)
        x = torch.randn(8, 16)
        loss = (layer(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        average_gradients(layer, state)
        opt.step()
        report = loss.detach().clone()
        dist.all_reduce(report, group=state.groups["ep"])
        if step % 20 == 0 and state.rank == 0:
            print("step", step, report.item() / 2, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
