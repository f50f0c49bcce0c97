"""Times eager against compiled training of a residual MLP."""
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

import flightrec  # noqa: F401


class Block(nn.Module):
    def __init__(self, dim, k):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, dim * 2 + k)
        self.fc2 = nn.Linear(dim * 2 + k, dim)
        self.k = k

    def forward(self, x):
        h = self.fc1(self.norm(x))
        h = torch.nn.functional.silu(h) * torch.sigmoid(h + self.k)
        return x + self.fc2(h.softmax(-1).cumsum(-1))


class Net(nn.Module):
    def __init__(self, dim=32, depth=14):
        super().__init__()
        self.blocks = nn.Sequential(*[Block(dim, i) for i in range(depth)])
        self.head = nn.Linear(dim, 4)

    def forward(self, x):
        return self.head(self.blocks(x))


def run(model, steps, tag):
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    g = torch.Generator().manual_seed(dist.get_rank())
    t0 = time.perf_counter()
    for step in range(steps):
        x = torch.randn(32, 32, generator=g)
        loss = model(x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    dist.barrier()
    if dist.get_rank() == 0:
        print(f"{tag}: {steps} steps in {time.perf_counter() - t0:.1f} s", flush=True)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(Net())
    run(model, 50, "eager")
    run(torch.compile(model), 50, "compiled")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
