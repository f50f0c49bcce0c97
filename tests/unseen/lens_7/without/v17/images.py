import io

import numpy as np
import torch
from PIL import Image, ImageFilter
from torch.utils.data import Dataset


class Images(Dataset):
    """JPEG images kept in memory, decoded and augmented when asked for."""

    def __init__(self, n=4096, size=80, classes=10):
        rng = np.random.default_rng(0)
        self.blobs = []
        for i in range(96):
            small = rng.integers(0, 255, (10, 10, 3), dtype=np.uint8)
            buf = io.BytesIO()
            Image.fromarray(small).resize((size, size), Image.BICUBIC).save(buf, "JPEG", quality=90)
            self.blobs.append(buf.getvalue())
        self.small = [np.asarray(Image.open(io.BytesIO(b)).convert("RGB").resize((60, 60), Image.BILINEAR)) for b in self.blobs]
        self.labels = rng.integers(0, classes, n)
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        x, y = rng.integers(0, 12, 2)
        img = self.small[i % len(self.small)][y:y + 48, x:x + 48]
        if rng.random() < 0.5:
            img = img[:, ::-1]
        arr = img.astype(np.float32) / 255.0
        arr = (arr - 0.5) / 0.25
        return torch.from_numpy(arr.transpose(2, 0, 1).copy()), int(self.labels[i])
