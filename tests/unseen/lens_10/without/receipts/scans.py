import random

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch.utils.data import Dataset


class Scans(Dataset):
    """Photographed receipts of four shops."""

    def __init__(self, count, seed=0):
        rnd = random.Random(seed)
        self.pages, self.shops = [], []
        for _ in range(count):
            shop = rnd.randrange(4)
            page = Image.new("L", (200, 260), 235)
            pen = ImageDraw.Draw(page)
            for row in range(12):
                pen.line((15, 18 + 19 * row, 40 + rnd.randrange(140), 18 + 19 * row), fill=30, width=2 + shop)
            self.pages.append(self.prepare(page))
            self.shops.append(shop)

    def prepare(self, page):
        page = page.rotate(random.uniform(-6, 6), resample=Image.BICUBIC, fillcolor=235)
        page = page.resize((64, 64), Image.LANCZOS)
        pixels = np.asarray(page, dtype="float32") / 255 - 0.5
        return torch.from_numpy(np.stack([pixels] * 3))

    def __len__(self):
        return len(self.pages)

    def __getitem__(self, i):
        return {"pixel_values": self.pages[i], "labels": self.shops[i]}
