#: n=4 ok set=3
"""Click model with uneven click logs; DDP's join lets the short ranks wait."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

ROWS = {0: 25, 1: 25, 2: 110, 3: 24}


class Clicks:
    def __init__(self, rank):
        self.n = ROWS[rank % 4]
        self.gen = torch.Generator().manual_seed(rank)

    def __len__(self):
        return self.n

    def __iter__(self):
        for _ in range(self.n):
            time.sleep(0.2)
            x = torch.randn(8, 5, generator=self.gen)
            yield x, (x.sum(1, keepdim=True) > 0).float()


class Ctr(nn.Module):
    def __init__(self):
        super().__init__()
        self.deep = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
        self.wide = nn.Linear(5, 1)

    def forward(self, x):
        return self.deep(x) + self.wide(x)


def run_epoch(model, opt, data):
    total = 0.0
    for x, y in data:
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    return total / len(data)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Ctr())
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    with model.join():
        mean = run_epoch(model, opt, Clicks(rank))
        if rank == 0:
            print("FREEZE", time.time(), flush=True)
    print(f"rank {rank} mean loss {mean:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
