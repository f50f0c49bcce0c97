"""Regions have unequal numbers of sales; DDP's join lets the shorter ones end their epoch."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP

ROWS = [12, 30, 19, 25]


def sales(epoch, rank):
    g = torch.Generator().manual_seed(epoch * 4 + rank)
    for _ in range(ROWS[rank]):
        x = torch.randn(16, 8, generator=g)
        yield x, x[:, :2].sum(dim=1, keepdim=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(4):
        total = 0.0
        with Join([model]):
            for x, y in sales(epoch, rank):
                loss = nn.functional.mse_loss(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.item()
                time.sleep(0.08)
        stats = torch.tensor([total, float(ROWS[rank])])
        dist.all_reduce(stats)
        if rank == 0:
            print(f"epoch {epoch}: {stats[0] / stats[1]:.4f} over {int(stats[1])} batches", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
