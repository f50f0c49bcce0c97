"""The leaf photographs (JPEG in memory), and their augmentation."""
import io
import random

import numpy as np
import torch
from PIL import Image, ImageEnhance
from torch.utils.data import Dataset


def make_archive(n, size=320):
    rng = np.random.default_rng(5)
    out = []
    for k in range(n):
        y, x = np.mgrid[0:size, 0:size] / size
        base = np.stack([np.sin(x * (3 + k % 7)), np.cos(y * (2 + k % 5)), x * y], -1)
        pixels = ((base * 0.4 + 0.5 + rng.normal(0, 0.03, base.shape)).clip(0, 1) * 255).astype("uint8")
        buf = io.BytesIO()
        Image.fromarray(pixels).save(buf, "jpeg", quality=88)
        out.append((buf.getvalue(), k % 12))
    return out


class LeafDataset(Dataset):
    def __init__(self, archive, length, side=64):
        self.length, self.side = length, side
        self.archive = archive

    def open(self, raw):
        img = Image.open(io.BytesIO(raw)).convert("RGB")
        return img.resize((self.side, self.side), Image.Resampling.BICUBIC)

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        raw, label = self.archive[i % len(self.archive)]
        img = self.open(raw)
        if random.random() < 0.5:
            img = img.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        img = ImageEnhance.Color(img).enhance(random.uniform(0.7, 1.3))
        return torch.from_numpy(np.asarray(img).copy()).permute(2, 0, 1).float() / 255, label
