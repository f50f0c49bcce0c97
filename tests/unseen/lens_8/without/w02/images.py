"""Images kept compressed in memory, decoded and augmented when they are asked for."""
import zlib

import numpy as np
import torch
from torch.utils.data import Dataset

SIDE = 88
CROP = 80


class PackedImages(Dataset):
    def __init__(self, length, kinds=10, distinct=256, seed=0):
        rng = np.random.default_rng(seed)
        self.length = length
        self.blobs, self.labels = [], []
        for _ in range(distinct):
            coarse = rng.integers(0, 255, (SIDE // 4, SIDE // 4, 3), dtype=np.uint8)
            image = np.kron(coarse, np.ones((4, 4, 1), dtype=np.uint8))
            image = image ^ rng.integers(0, 15, image.shape, dtype=np.uint8)
            self.blobs.append(zlib.compress(image.tobytes(), 3))
            self.labels.append(int(coarse.mean()) % kinds)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        index %= len(self.blobs)
        raw = zlib.decompress(self.blobs[index])
        image = np.frombuffer(raw, dtype=np.uint8).reshape(SIDE, SIDE, 3).astype(np.float32) / 255
        return torch.from_numpy(self.augment(image)), self.labels[index]

    def augment(self, image):
        top, left = np.random.randint(0, SIDE - CROP + 1, 2)
        image = image[top:top + CROP, left:left + CROP]
        if np.random.rand() < 0.5:
            image = image[:, ::-1]
        mean = image.mean(axis=(0, 1), keepdims=True)
        image = (image - mean) * np.random.uniform(0.7, 1.3) + mean
        image = image + np.random.normal(0, 0.02, image.shape).astype(np.float32)
        image = np.clip(image, 0, 1)
        return np.ascontiguousarray(image.transpose(2, 0, 1), dtype=np.float32)
