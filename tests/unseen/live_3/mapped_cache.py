"""Features are cached in a mapped file which is cut to a fresh size now and then."""
import os
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist

DIM = 256


class FeatureCache:
    def __init__(self, rank):
        self.path = os.path.join(tempfile.gettempdir(), f"features-{os.getpid()}-{rank}.bin")
        self.rows = 4096
        self.file = open(self.path, "w+b")
        os.unlink(self.path)
        self.grow(self.rows)
        self.map = np.memmap(self.file, dtype=np.float32, mode="r+", shape=(self.rows, DIM))

    def grow(self, rows):
        os.ftruncate(self.file.fileno(), rows * DIM * 4)

    def trim(self, rows):
        os.ftruncate(self.file.fileno(), rows * DIM * 4)  #: LINE

    def put(self, start, block):
        self.map[start:start + len(block)] = block

    def mean(self, rows):
        return torch.from_numpy(self.map[rows].mean(axis=0))


def used_rows(step, rank):
    if rank == 2 and step == 9:
        return 512  # a small shard: give the disk space back
    return 4096


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    cache = FeatureCache(rank)
    rng = np.random.default_rng(rank)
    for step in range(60):
        rows = used_rows(step, rank)
        if rows < cache.rows:
            cache.trim(rows)
        cache.put(0, rng.standard_normal((256, DIM), dtype=np.float32))
        pick = rng.integers(0, cache.rows, size=300)
        feature = cache.mean(pick)
        dist.all_reduce(feature)
        time.sleep(0.2)
        if rank == 0:
            print(f"step {step}: norm {feature.norm():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
