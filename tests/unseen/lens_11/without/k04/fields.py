"""Satellite tiles with the outlines of fields, one JSON file a tile."""
import json
import os

import numpy as np
import torch
from PIL import Image, ImageDraw

SIZE = 64


def write_outlines(folder, tiles):
    rng = np.random.default_rng(8)
    for n in range(tiles):
        shapes = []
        for _ in range(24):
            centre, radius = rng.uniform(8, SIZE - 8, 2), rng.uniform(2, 10)
            angles = np.linspace(0, 2 * np.pi, 60)
            ring = np.stack([np.cos(angles), np.sin(angles)], 1) * radius + centre + rng.normal(0, 0.3, (60, 2))
            shapes.append({"crop": int(rng.integers(1, 6)), "ring": ring.tolist()})
        with open(os.path.join(folder, f"tile{n}.json"), "w") as f:
            json.dump({"tile": n, "fields": shapes}, f)


class Tiles:
    def __init__(self, folder, tiles):
        self.folder = folder
        self.bands = torch.randn(tiles, 4, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
        self.masks = [self.mask(n) for n in range(tiles)]

    def mask(self, n):
        with open(os.path.join(self.folder, f"tile{n}.json")) as f:
            fields = json.load(f)["fields"]
        picture = Image.new("L", (SIZE, SIZE))
        pen = ImageDraw.Draw(picture)
        for field in fields:
            pen.polygon([(x, y) for x, y in field["ring"]], fill=field["crop"])
        return torch.from_numpy(np.array(picture, dtype=np.int64))

    def batch(self, numbers):
        return self.bands[numbers], torch.stack([self.masks[n] for n in numbers.tolist()])
