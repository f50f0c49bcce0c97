"""DDP with a compiled model; rank 0 compiles first so that the others find the cache filled."""
import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

DIM = 64


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        self.gate = nn.Linear(DIM, DIM)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        a = torch.softmax(q @ k.transpose(1, 2) / DIM ** 0.5, -1) @ v
        return x + self.out(a) * torch.sigmoid(self.gate(x))


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--layers", type=int, default=20)
    args = args.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(*[Layer() for _ in range(args.layers)])
    fast = torch.compile(net)
    x = torch.randn(2, 16, DIM)
    if rank == 0:
        print("compiling", flush=True)
        fast(x).sum().backward()
        net.zero_grad()
        print("compiled", flush=True)
    dist.barrier()
    ddp = DDP(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(5):
        loss = (ddp(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if rank == 0:
        print(f"finished, loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
