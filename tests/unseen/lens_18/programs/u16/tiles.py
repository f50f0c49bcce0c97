import numpy as np
import torch


def write(path, count=144, side=24):
    g = np.random.default_rng(0)
    cover = g.integers(0, 4, (count, side, side))
    tiles = g.normal(size=(count, 4, side, side)).astype("float32")
    tiles[:, 0] += cover
    np.savez(path, tiles=tiles, cover=cover)


class Tiles(torch.utils.data.Dataset):
    """Land cover from satellite tiles with four bands."""

    def __init__(self, path):
        self.archive = np.load(path)

    def __len__(self):
        return 144

    def __getitem__(self, index):
        tile, cover = self.archive["tiles"][index], self.archive["cover"][index]  #: LINE
        return torch.from_numpy(tile), torch.from_numpy(cover)
