import glob
import os

import numpy as np
import torch
from torch.utils.data import Dataset


def write(folder, patients=12, slices=24, size=64):
    rng = np.random.default_rng(0)
    for k in range(patients):
        lesion = rng.integers(0, 2, slices)
        volume = rng.normal(0, 1, (slices, size, size)).round(1).astype("float32")
        volume[lesion == 1, 20:30, 20:30] += 1.5
        np.savez_compressed(os.path.join(folder, f"patient_{k:03d}.npz"), volume=volume, lesion=lesion)


class Slices(Dataset):
    def __init__(self, folder, slices=24):
        self.paths = sorted(glob.glob(os.path.join(folder, "*.npz")))
        self.slices = slices

    def __len__(self):
        return len(self.paths) * self.slices

    def load(self, path):
        with np.load(path) as file:
            return file["volume"], file["lesion"]

    def __getitem__(self, index):
        patient, k = divmod(index, self.slices)
        volume, lesion = self.load(self.paths[patient])  #: LINE
        image = torch.from_numpy(volume[k])[None]
        return (image - image.mean()) / image.std(), int(lesion[k])
