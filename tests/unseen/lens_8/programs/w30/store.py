"""Records that lie in a bucket of a remote object store (its latency is a timed wait)."""
import time

import numpy as np
import torch
from torch.utils.data import Dataset

LATENCY_S = 0.0056


class Bucket:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.blob = self.rng.standard_normal(64 * 192).astype(np.float32).tobytes()

    def get(self, key):
        time.sleep(LATENCY_S)
        return self.blob


class RemoteRecords(Dataset):
    def __init__(self, length, seed):
        self.length = length
        self.bucket = Bucket(seed)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        blob = self.bucket.get(f"records/{index:08d}.bin")
        record = np.frombuffer(blob, dtype=np.float32).reshape(64, 192).copy()
        return torch.from_numpy(record), index % 16
