#: n=4 ranks=3 cause=stopped tier=error
import os
import random
import signal
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


class Tower(nn.Module):
    def __init__(self, dim=16, hidden=32, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(FeedForward(dim, hidden) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


def shard(model, mesh):
    plan = {"w1": ColwiseParallel(), "w3": ColwiseParallel(), "w2": RowwiseParallel()}
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
    return model


class PreemptionNotice:
    """The cluster asks single processes to give way; they hand the cpu back to the scheduler."""

    def __init__(self, rank, at):
        self.rank, self.at = rank, at

    def requested(self, step):
        return self.rank == 3 and step == self.at

    def give_way(self):
        print("FREEZE", time.time(), flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)  #: LINE


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
    rank = dist.get_rank()
    torch.manual_seed(99)
    model = shard(Tower(), mesh["tp"])
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    notice = PreemptionNotice(rank, random.Random(86).randint(15, 27))
    data = torch.Generator().manual_seed(1)
    for step in range(80):
        if notice.requested(step):
            notice.give_way()
        time.sleep(0.15)
        x = torch.randn(4, 16, generator=data)
        loss = (model(x) - x.roll(1, 0)).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if rank == 0 and step % 10 == 0:
            print(step, loss.item(), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
