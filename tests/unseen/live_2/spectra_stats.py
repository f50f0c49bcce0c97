"""Streaming mean and deviation over shards of spectra; every shard is summed over the ranks."""
import os
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist

BINS, ROWS, SHARDS = 2048, 600, 60


def gains_for(rank, shard):
    """Calibration of the instrument, as the lab sends it: one number per shard."""
    gains = [1, 2, 4][shard % 3]
    if rank == 2 and shard >= 26:
        gains = np.array([1.0275] * BINS)  #: LINE
    return gains


class SpectraReader:
    def __init__(self, folder, rank):
        self.path = os.path.join(folder, f"run{rank}.bin")
        self.rank = rank
        rng = np.random.default_rng(rank)
        rng.gamma(2.0, 1.5, size=(ROWS, BINS)).astype(np.float32).tofile(self.path)

    def __iter__(self):
        for shard in range(SHARDS):
            raw = np.fromfile(self.path, dtype=np.float32).reshape(ROWS, BINS)
            raw = np.roll(raw, shard, axis=1)
            yield shard, raw * gains_for(self.rank, shard)


def moments(block):
    t = torch.from_numpy(block)
    return torch.stack([t.sum(0), t.square().sum(0)])


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    total = torch.zeros(2, BINS, dtype=torch.float64)
    seen = 0
    with tempfile.TemporaryDirectory() as folder:
        for shard, block in SpectraReader(folder, rank):
            m = moments(block)
            dist.all_reduce(m)
            total += m
            seen += ROWS * world
            time.sleep(0.04)
            if rank == 0 and shard % 10 == 0:
                mean = total[0] / seen
                dev = (total[1] / seen - mean ** 2).clamp(min=0).sqrt()
                print(f"shard {shard}: mean {mean.mean():.4f} deviation {dev.mean():.4f}", flush=True)
    dist.barrier()
    if rank == 0:
        print("spectra:", seen)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
