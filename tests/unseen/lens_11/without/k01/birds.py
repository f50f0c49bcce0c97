"""A folder of JPEG photographs, cropped and flipped at random."""
import os
import random

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset


def draw_photos(folder, count):
    rng = np.random.default_rng(1)
    for n in range(count):
        coarse = rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)
        photo = Image.fromarray(coarse).resize((320, 240), Image.BICUBIC)
        photo.save(os.path.join(folder, f"{n % 10}_{n:04d}.jpg"), quality=92)


class Birds(Dataset):
    def __init__(self, folder, size=80):
        self.files = sorted(os.path.join(folder, f) for f in os.listdir(folder))
        self.size = size

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        path = self.files[i]
        photo = Image.open(path).convert("RGB")
        w, h = photo.size
        side = random.randint(h // 2, h)
        left, top = random.randint(0, w - side), random.randint(0, h - side)
        photo = photo.resize((self.size, self.size), Image.BILINEAR, (left, top, left + side, top + side))
        pixels = np.asarray(photo, dtype=np.float32) / 255.0
        if random.random() < 0.5:
            pixels = pixels[:, ::-1]
        return torch.from_numpy(pixels.transpose(2, 0, 1).copy()), int(os.path.basename(path).split("_")[0])
