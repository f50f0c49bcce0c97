import os

import numpy as np
import torch
from torch.utils.data import Dataset


def write(folder, count, size=64, bands=6):
    rng = np.random.default_rng(0)
    for k in range(count):
        ice = np.cumsum(rng.normal(size=(bands, size, size)), axis=2).astype("float32").round(2)
        np.savez_compressed(os.path.join(folder, f"{k:04d}.npz"), bands=ice, loss=np.float32(ice[0, :, -1].mean() / 10))


class Glaciers(Dataset):
    def __init__(self, folder):
        self.files = sorted(os.path.join(folder, f) for f in os.listdir(folder))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        return read(self.files[i])


def read(path):
    with np.load(path) as z:
        return torch.from_numpy(z["bands"]), torch.tensor(float(z["loss"]))
