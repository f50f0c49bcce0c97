"""DDP; every rank reads its own binary shards one after the other from the mounted store."""
import frdump  # noqa: F401
import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

ROWS, COLS, SHARDS = 64, 16, 6


def read_shard(rank, index):
    path = f"mnt/store/shard_{rank}_{index}.bin"
    with open(path, "rb") as f:
        raw = f.read()
    return torch.from_numpy(np.frombuffer(raw, dtype=np.float32).reshape(ROWS, COLS).copy())


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    ddp = DDP(nn.Sequential(nn.Linear(COLS, 32), nn.Tanh(), nn.Linear(32, COLS)))
    opt = torch.optim.Adam(ddp.parameters(), lr=1e-3)
    for index in range(SHARDS):
        rows = read_shard(rank, index)
        for i, part in enumerate(rows.split(8)):
            loss = (ddp(part) - part).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        if rank == 0:
            print(f"shard {index} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
