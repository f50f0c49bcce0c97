import numpy as np
import torch
from torch.utils.data import Dataset


class Stamps(Dataset):
    def __init__(self, count=400, side=40, seed=6):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, 7, count)
        self.pixels = (rng.random((count, side, side, 3)) * 60 + 20 * self.labels[:, None, None, None]).astype("uint8")

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        pixels = torch.from_numpy(self.pixels[i]).permute(2, 0, 1).float() / 127.5 - 1
        if torch.rand(()) < 0.5:
            pixels = pixels.flip(-1)
        return pixels, int(self.labels[i])
