import glob
import os

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset


def write(folder, count=240, size=48):
    rng = np.random.default_rng(0)
    for k in range(count):
        coarse = rng.integers(0, 255, (6, 6, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize((size, size), Image.BILINEAR)
        image.save(os.path.join(folder, f"{k % 8}_{k:04d}.jpg"), quality=90)


class Gallery(Dataset):
    def __init__(self, folder, size=40):
        self.paths, self.size = sorted(glob.glob(os.path.join(folder, "*.jpg"))), size
        self.ready = [self.load(path) for path in self.paths]

    def __len__(self):
        return len(self.paths)

    def load(self, path):
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB").resize((self.size, self.size)))
        tensor = torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255
        return tensor, int(os.path.basename(path)[0])

    def __getitem__(self, index):
        return self.ready[index]
