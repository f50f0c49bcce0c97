import random

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageFilter
from torch.utils.data import Dataset


def draw_leaf(kind, rnd):
    side = 112
    yy, xx = np.mgrid[0:side, 0:side]
    a = rnd.uniform(0.15, 0.3) + 0.05 * kind
    inside = ((xx - 56) / (56 * a * 2)) ** 2 + ((yy - 56) / 50) ** 2 < 1
    picture = np.full((side, side, 3), 225, "uint8")
    picture[inside] = (40 + 12 * kind, 110 + rnd.randrange(60), 45)
    return Image.fromarray(picture)


class Leaves(Dataset):
    def __init__(self, count, kinds=5, seed=3):
        rnd = random.Random(seed)
        self.kinds = [rnd.randrange(kinds) for _ in range(count)]
        self.pictures = [self.prepare(draw_leaf(kind, rnd)) for kind in self.kinds]

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        return self.pictures[index], self.kinds[index]

    def prepare(self, picture):
        picture = picture.rotate(random.uniform(-20, 20), resample=Image.BILINEAR)
        picture = ImageEnhance.Contrast(picture).enhance(random.uniform(0.8, 1.2))
        picture = picture.filter(ImageFilter.GaussianBlur(random.uniform(0.2, 1.0)))
        picture = picture.resize((48, 48), Image.BICUBIC)
        pixels = np.asarray(picture, dtype=np.float32) / 127.5 - 1
        return torch.from_numpy(pixels).permute(2, 0, 1)
