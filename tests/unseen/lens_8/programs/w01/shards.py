"""Spectrograms in compressed shards (npz), 32 in each."""
import os

import numpy as np
import torch
from torch.utils.data import Dataset

PER_SHARD = 32


def write_shards(folder, shards, seed):
    rng = np.random.default_rng(seed)
    for number in range(shards):
        x = np.round(rng.standard_normal((PER_SHARD, 40, 64)), 1).astype(np.float32)
        y = rng.integers(0, 12, PER_SHARD)
        np.savez_compressed(os.path.join(folder, f"shard{number:04d}.npz"), x=x, y=y)


class Spectrograms(Dataset):
    def __init__(self, folder, shards):
        self.paths = [os.path.join(folder, f"shard{n:04d}.npz") for n in range(shards)]
        self.loaded = {}

    def __len__(self):
        return len(self.paths) * PER_SHARD

    def shard(self, number):
        with np.load(self.paths[number]) as shard:
            return shard["x"], shard["y"]

    def __getitem__(self, index):
        number, row = divmod(index, PER_SHARD)
        x, y = self.shard(number)
        return torch.from_numpy(x[row].copy()), int(y[row])
