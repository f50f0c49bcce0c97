"""DDP; shards are fetched over HTTP from the data service."""
import frdump  # noqa: F401
import io
import os
import urllib.request

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

BASE = os.environ.get("DATA_URL", "http://data-service:8080")


def fetch(rank, index):
    url = f"{BASE}/shards/{rank}/{index}.pt"
    with urllib.request.urlopen(url) as reply:
        return torch.load(io.BytesIO(reply.read()))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    ddp = DDP(nn.Sequential(nn.Linear(10, 50), nn.ReLU(), nn.Linear(50, 3)))
    opt = torch.optim.SGD(ddp.parameters(), lr=0.02)
    for index in range(8):
        x, y = fetch(rank, index)
        for xb, yb in zip(x.split(16), y.split(16)):
            loss = nn.functional.cross_entropy(ddp(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if rank == 0:
            print(f"shard {index}: loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
