import io

import numpy as np
from PIL import Image
from torch.utils.data import IterableDataset
import torch


def survey(count=400, side=128, kinds=4):
    """Made-up pictures of galaxies as they come from the survey: one PNG each, with its kind."""
    rng = np.random.default_rng(5)
    y, x = np.mgrid[-1:1:side * 1j, -1:1:side * 1j]
    packed = []
    for _ in range(count):
        kind = int(rng.integers(kinds))
        turn, flat = rng.uniform(0, np.pi), 1 + kind
        along, across = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
        light = np.exp(-4 * (along ** 2 + flat * across ** 2))[..., None] * rng.uniform(0.5, 1, 3)
        pixels = (255 * (0.8 * light + 0.2 * rng.random((side, side, 3)))).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        packed.append((file.getvalue(), kind))
    return packed


def decode(entry, side=48):
    png, kind = entry
    with Image.open(io.BytesIO(png)) as picture:
        pixels = np.asarray(picture.convert("RGB").resize((side, side), Image.BILINEAR))
    return torch.from_numpy(pixels.transpose(2, 0, 1).astype(np.float32) / 255), kind


class Stream(IterableDataset):
    """The survey again and again in a new order, each process its part."""

    def __init__(self, packed, rank, world):
        self.packed, self.rank, self.world = packed, rank, world

    def __iter__(self):
        rng = np.random.default_rng(1)
        while True:
            order = rng.permutation(len(self.packed))
            for place, entry in enumerate(self.packed[i] for i in order):
                if place % self.world == self.rank:
                    yield decode(entry)
