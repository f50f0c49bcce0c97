import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset


def drill(folder, count=8000, depths=128):
    """Gamma logs of wells, larger than memory in real life, so they stay on the disk."""
    random = np.random.default_rng(0)
    logs = np.cumsum(random.standard_normal((count, depths)), 1).astype(np.float32) / 8
    np.save(os.path.join(folder, "logs.npy"), logs)


class Wells(Dataset):
    def __init__(self, folder):
        self.logs = np.load(os.path.join(folder, "logs.npy"), mmap_mode="r")

    def __len__(self):
        return len(self.logs)

    def __getitem__(self, index):
        return torch.from_numpy(self.logs[index].copy())


class Squeeze(nn.Module):
    """An autoencoder."""

    def __init__(self, depths=128, width=1024, code=12):
        super().__init__()
        self.down = nn.Sequential(nn.Linear(depths, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, code))
        self.up = nn.Sequential(nn.Linear(code, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, depths))

    def forward(self, x):
        return self.up(self.down(x))
