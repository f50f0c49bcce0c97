import os

import numpy as np
import torch


def write_shards(folder, rank, parts=8, batch=24):
    """One day of recordings per part; rank 1 holds the archive of the older station."""
    rng = np.random.default_rng(50 + rank)
    for part in range(parts):
        signal = np.cumsum(rng.normal(size=(batch, 8, 512)), axis=-1).astype("float32").round(2)
        label = rng.integers(0, 4, batch)
        save = np.savez_compressed if rank == 1 else np.savez
        save(os.path.join(folder, f"part{part}.npz"), signal=signal, label=label)


class Shards:
    def __init__(self, folder, parts=8):
        self.files = [os.path.join(folder, f"part{p}.npz") for p in range(parts)]

    def read(self, i):
        with np.load(self.files[i % len(self.files)]) as part:
            signal, label = part["signal"], part["label"]  #: LINE
        signal = signal - signal.mean(-1, keepdims=True)
        return torch.from_numpy(signal), torch.from_numpy(label)
