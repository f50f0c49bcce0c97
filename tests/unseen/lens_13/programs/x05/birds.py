import os

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset


def write_photos(folder, count=96, seed=0):
    rng = np.random.default_rng(seed)
    for i in range(count):
        small = rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)
        Image.fromarray(small).resize((160, 120), Image.BICUBIC).save(os.path.join(folder, f"{i % 6}_{i:04d}.jpg"))


class Birds(Dataset):
    def __init__(self, folder, size=40):
        self.images, self.labels = [], []
        for name in sorted(os.listdir(folder)):
            with Image.open(os.path.join(folder, name)) as im:
                self.images.append(torch.from_numpy(np.array(im.convert("RGB").resize((size, size)))))
            self.labels.append(int(name[0]))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        x = self.images[i].permute(2, 0, 1)
        if torch.rand(()).item() < 0.5:
            x = x.flip(-1)
        return x, self.labels[i]
