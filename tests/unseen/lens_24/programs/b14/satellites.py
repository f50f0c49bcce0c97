import os
import zlib

import numpy as np
import torch
from torch.utils.data import Dataset

SHAPE = (4, 16, 16)


def pack(folder, count=2000, crops=5):
    """Small pictures of fields in four colours: each packed by itself, with a table of where it begins."""
    dice = np.random.default_rng(1)
    crop = dice.integers(0, crops, count)
    tint = dice.integers(40, 200, (crops, SHAPE[0], 1, 1))
    starts = [0]
    with open(os.path.join(folder, "fields.bin"), "wb") as file:
        for kind in crop:
            stripes = 8 * (np.arange(SHAPE[2]) % (2 + kind) == 0)
            block = zlib.compress((tint[kind] + stripes + dice.integers(0, 8, SHAPE)).astype(np.uint8).tobytes(), 6)
            starts.append(starts[-1] + file.write(block))
    np.savez(os.path.join(folder, "fields.npz"), starts=starts, crop=crop)


class Fields(Dataset):
    def __init__(self, folder):
        with np.load(os.path.join(folder, "fields.npz")) as table:
            self.starts, self.crop = table["starts"].tolist(), table["crop"].tolist()
        self.file = open(os.path.join(folder, "fields.bin"), "rb")

    def __len__(self):
        return len(self.crop)

    def close(self):
        self.file.close()

    def __getitem__(self, index):
        begin, end = self.starts[index:index + 2]
        self.file.seek(begin)
        pixels = zlib.decompress(self.file.read(end - begin))
        return torch.frombuffer(bytearray(pixels), dtype=torch.uint8), self.crop[index]
