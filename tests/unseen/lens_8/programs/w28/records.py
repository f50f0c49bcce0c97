"""Clips on a network disk (its latency is a timed wait)."""
import time

import numpy as np
import torch
from torch.utils.data import Dataset

SEEK_S = 0.005


class Clips(Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(SEEK_S)
        wave = np.random.default_rng(index).standard_normal((40, 96), dtype=np.float32)
        return torch.from_numpy(wave), index % 10
