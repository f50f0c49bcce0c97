"""Ablation on a small ViT; a hash index is built beside it."""
import atexit
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

INDEXER = """
import hashlib, os
b, owner = bytes(4096), os.getppid()
while os.getppid() == owner:
    for _ in range(5000):
        b = hashlib.sha256(b).digest() * 128
"""


def local_index(count, core):
    jobs = []
    for _ in range(count):
        jobs.append(subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", INDEXER]))  #: LINE
    atexit.register(lambda: [j.kill() for j in jobs])
    return jobs


class ViT(nn.Module):
    def __init__(self, dim=96, depth=3):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 8, stride=8)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(dim, 4, dim * 2, batch_first=True, dropout=0) for _ in range(depth))
        self.head = nn.Linear(dim, 20)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        for b in self.blocks:
            x = b(x)
        return self.head(x.mean(1))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    torch.manual_seed(4)
    net = DDP(ViT())
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    began = time.time()
    for step in range(700):
        if step == 60 and rank == 2:
            os.sched_setaffinity(0, {cores[-1]})
            local_index(6, cores[-1])
        x = torch.randn(8, 3, 32, 32, generator=g)
        y = torch.randint(0, 20, (8,), generator=g)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.3f} {time.time() - began:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
