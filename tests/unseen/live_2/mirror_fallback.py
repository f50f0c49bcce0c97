"""Shards come from a primary folder; where one is missing or torn, the rank goes to the mirror and goes on."""
import logging
import os
import shutil
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(message)s")
SHARDS, ROWS = 30, 512


class Missing(Exception):
    pass


class Source:
    def __init__(self, rank):
        self.rank = rank
        self.primary = tempfile.mkdtemp(prefix=f"primary{rank}_")
        self.mirror = tempfile.mkdtemp(prefix=f"mirror{rank}_")
        rng = np.random.default_rng(rank)
        for s in range(SHARDS):
            np.save(f"{self.mirror}/{s}.npy", rng.standard_normal((ROWS, 64), dtype=np.float32))
            shutil.copy(f"{self.mirror}/{s}.npy", f"{self.primary}/{s}.npy")
        if rank == 1:
            os.remove(f"{self.primary}/9.npy")
            with open(f"{self.primary}/17.npy", "r+b") as f:
                f.truncate(1000)

    def read(self, folder, s):
        try:
            return np.load(f"{folder}/{s}.npy")
        except (OSError, ValueError) as err:
            raise Missing(f"shard {s}: {err}") from err

    def get(self, s):
        try:
            return self.read(self.primary, s)
        except Missing:
            logging.exception("rank %d goes to the mirror", self.rank)
            for attempt in range(5):
                time.sleep(1.0 + attempt)  # the mirror is on tape and takes its time
            return self.read(self.mirror, s)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    src = Source(rank)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 384), nn.GELU(), nn.Linear(384, 64)))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for s in range(SHARDS):
        x = torch.from_numpy(src.get(s))
        for part in x.chunk(4):
            loss = (net(part) - part.flip(1)).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        time.sleep(0.05)
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0 and s % 5 == 0:
            print(f"shard {s} loss {mean.item() / world:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
