import os

import numpy as np
import torch
from torch import nn


def write(path, count=2400, length=1024, seed=0):
    """Traces one after the other in one file, the place of the first wave in front of each."""
    r = np.random.default_rng(seed)
    onset = r.integers(100, 900, count)
    t = np.arange(length)
    rows = 0.2 * r.standard_normal((count, length))
    late = np.maximum(t[None] - onset[:, None], 0)
    rows += (late > 0) * np.sin(0.4 * late) * np.exp(-late / 120)
    np.concatenate([onset[:, None], rows], 1).astype(np.float32).tofile(path)
    return count


class Traces(torch.utils.data.Dataset):
    def __init__(self, path, length=1024):
        self.path, self.size = path, 4 * (length + 1)
        self.count = os.path.getsize(path) // self.size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        with open(self.path, "rb") as file:
            file.seek(index * self.size)
            row = np.frombuffer(file.read(self.size), np.float32)
        return torch.from_numpy(row[1:].copy())[None], torch.tensor(row[0] / 1024)


class Picker(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, width, 9, 2, 4), nn.ReLU(), nn.Conv1d(width, width, 9, 2, 4), nn.ReLU(),
            nn.Conv1d(width, width, 9, padding=4), nn.ReLU(), nn.Conv1d(width, width, 9, padding=4), nn.ReLU(),
        )
        self.out = nn.Conv1d(width, 1, 1)

    def forward(self, x):
        weight = torch.softmax(self.out(self.body(x)).squeeze(1), 1)
        return weight @ torch.linspace(0, 1, weight.shape[1])
