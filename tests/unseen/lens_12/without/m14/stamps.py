import numpy as np
import torch
from torch.utils.data import Dataset


class Stamps(Dataset):
    def __init__(self, count=400, side=40, seed=6):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, 7, count)
        pixels = (rng.random((count, side, side, 3)) * 60 + 20 * self.labels[:, None, None, None]).astype("uint8")
        self.pixels = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.pixels[i], int(self.labels[i])
