"""Three-stage conveyor with a final collector. Batches do not divide evenly into micro batches."""
import math

import torch
import torch.distributed as dist
import torch.nn as nn


def n_micro_floor(batch, micro):
    return batch // micro


def n_micro_ceil(batch, micro):
    return math.ceil(batch / micro)


class Stage(nn.Module):
    def __init__(self, i, d=20):
        super().__init__()
        self.i = i
        self.f = nn.Linear(d, d)

    def forward(self, x):
        return torch.tanh(self.f(x))


class Conveyor:
    def __init__(self, rank, world, micro=8):
        self.rank, self.world, self.micro = rank, world, micro
        self.stage = Stage(rank)

    def feed(self, batch):
        for k in range(n_micro_floor(len(batch), self.micro)):
            dist.send(self.stage(batch[k * self.micro:(k + 1) * self.micro]).detach(), 1)

    def pass_on(self, n):
        for _ in range(n_micro_floor(n, self.micro)):
            buf = torch.empty(self.micro, 20)
            dist.recv(buf, self.rank - 1)
            dist.send(self.stage(buf).detach(), self.rank + 1)

    def collect(self, n):
        out = []
        for _ in range(n_micro_ceil(n, self.micro)):  #: LINE
            buf = torch.empty(self.micro, 20)
            dist.recv(buf, self.rank - 1)
            out.append(self.stage(buf).detach())
        return torch.cat(out)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    conv = Conveyor(rank, world)
    sizes = [64, 64, 64, 64, 64, 60]
    for it, n in enumerate(sizes):
        if rank == 0:
            conv.feed(torch.randn(n, 20))
        elif rank < world - 1:
            conv.pass_on(n)
        else:
            res = conv.collect(n)
            print(f"it {it}: collected {tuple(res.shape)}", flush=True)
        flag = torch.tensor([float(it)])
        dist.all_reduce(flag)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
