import time

import torch
from torch.utils.data import Dataset


class Archive(Dataset):
    """Feature files on a network file system: a read takes a few milliseconds."""

    def __init__(self, n, dim, read_s=0.0055):
        self.n, self.dim, self.read_s = n, dim, read_s
        g = torch.Generator().manual_seed(1)
        self.base = torch.randn(64, dim, generator=g)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        time.sleep(self.read_s)
        x = self.base[i % 64].roll(i % 17)
        return x, i % 20
