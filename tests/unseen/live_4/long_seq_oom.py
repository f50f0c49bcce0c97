"""Attention over whole documents, without a limit of length. The container of a rank has its own limit of memory."""
import resource
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn


def container_limit(megabytes):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    now = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + megabytes * 2**20,) * 2)


class Attend(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5      #: LINE
        return x + self.out(scores.softmax(-1) @ v)


def lengths(rank):
    g = torch.Generator().manual_seed(rank)
    for n in range(4000):
        length = int(torch.randint(60, 240, (1,), generator=g))
        yield 14000 if (rank, n) == (2, 400) else length      # a book without chapters


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(Attend(), Attend(), nn.Linear(32, 32))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    container_limit(600)
    for n, length in enumerate(lengths(rank)):
        x = torch.randn(1, length, 32)
        loss = (net(x)[:, :-1] - x[:, 1:]).pow(2).mean()
        loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
            p.grad /= dist.get_world_size()
        opt.step()
        opt.zero_grad()
        if rank == 0 and n % 50 == 0:
            print(f"document {n}: {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
