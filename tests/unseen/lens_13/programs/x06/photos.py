import os

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset


def shoot(folder, count=48, seed=0):
    rng = np.random.default_rng(seed)
    for i in range(count):
        rough = rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)
        photo = Image.fromarray(rough).resize((400, 300), Image.BICUBIC)
        photo.save(os.path.join(folder, f"{i % 5}_{i:04d}.jpg"), quality=90)


class Photos(Dataset):
    def __init__(self, folder, size=56, crop=48):
        self.paths = [os.path.join(folder, n) for n in sorted(os.listdir(folder))]
        self.size, self.crop = size, crop

    def __len__(self):
        return len(self.paths)

    def load(self, path):
        im = Image.open(path).convert("RGB")  #: LINE
        im = im.resize((self.size, self.size), Image.BILINEAR)
        return torch.from_numpy(np.array(im))

    def __getitem__(self, i):
        x = self.load(self.paths[i]).permute(2, 0, 1)
        a, b = torch.randint(self.size - self.crop, (2,)).tolist()
        return x[:, a:a + self.crop, b:b + self.crop].float() / 255, int(os.path.basename(self.paths[i])[0])
