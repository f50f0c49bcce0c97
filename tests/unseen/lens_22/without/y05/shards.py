import numpy as np
import torch
from torch.utils.data import Dataset


def record(path, count=500, length=96, kinds=6):
    """What the scanner would have written: light curves of asteroids, and the kind of each."""
    random = np.random.default_rng(0)
    kind = random.integers(0, kinds, count)
    clock = np.arange(length) * (0.1 + 0.05 * kind[:, None]) + 6 * random.random((count, 1))
    np.savez(path, curves=(np.sin(clock) + 0.3 * random.standard_normal(clock.shape)).astype(np.float32), kinds=kind)


class Curves(Dataset):
    def __init__(self, path):
        archive = np.load(path)
        self.curves, self.kinds = archive["curves"], archive["kinds"]
        self.count = len(self.kinds)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        curve = self.curves[index]
        kind = self.kinds[index]
        return torch.from_numpy(curve).unsqueeze(0), int(kind)
