"""Gradient accumulation counted in samples, so that filtered batches do not shrink the step."""
import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

TARGET = 64


class Filtered:
    """drops records with a low quality score"""

    def __init__(self, rank, n=60, size=16):
        self.g = torch.Generator().manual_seed(17)
        self.rank, self.n, self.size = rank, n, size

    def __iter__(self):
        for k in range(self.n):
            x = torch.randn(self.size, 10, generator=self.g)
            quality = torch.ones(self.size)
            if self.rank == 2 and k == 33:
                quality[:4] = 0.0
            keep = quality > 0.5
            yield x[keep], (x[keep].sum(1) > 0).long()


class Accumulator:
    def __init__(self, model, opt):
        self.model, self.opt = model, opt
        self.count = 0
        self.updates = 0

    def step(self, x, y):
        boundary = self.count + len(x) >= TARGET  #: LINE
        ctx = contextlib.nullcontext() if boundary else self.model.no_sync()
        with ctx:  #: LINE
            loss = F.cross_entropy(self.model(x), y, reduction="sum") / TARGET
            loss.backward()
        self.count += len(x)
        if boundary:
            self.opt.step()
            self.opt.zero_grad()
            self.count = 0
            self.updates += 1
        return loss.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.ReLU(), torch.nn.Linear(20, 2)))
    acc = Accumulator(model, torch.optim.SGD(model.parameters(), 0.1))
    for k, (x, y) in enumerate(Filtered(rank)):
        loss = acc.step(x, y)
        if k % 10 == 0:
            print(f"rank {rank} batch {k} updates {acc.updates} loss {loss:.3f}", flush=True)
    done = torch.tensor([acc.updates])
    dist.all_reduce(done, op=dist.ReduceOp.MIN)
    print(rank, "updates", acc.updates, "min", done.item())
    dist.destroy_process_group()


main()
