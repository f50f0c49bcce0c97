import numpy as np
import torch


class Scans(torch.utils.data.Dataset):
    """Slices of scans in one big file; only the slice asked for is read."""

    def __init__(self, path):
        self.slices = np.load(path, mmap_mode="r")

    def __len__(self):
        return len(self.slices)

    def __getitem__(self, index):
        piece = torch.from_numpy(np.array(self.slices[index]))
        return piece, (piece[:, 8:24, 8:24].mean() > 0).float()


def write(path, count=1500, side=32):
    np.save(path, np.random.default_rng(1).normal(size=(count, 1, side, side)).astype("float32"))
