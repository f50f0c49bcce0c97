import os

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler


class Tiles(Dataset):
    """Tiles of a soil map on disk, and how wet each is. The file is opened once and read where it is needed."""

    def __init__(self, path):
        self.tiles = np.load(path, mmap_mode="r")

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, picked):
        tiles = torch.from_numpy(np.array(self.tiles[picked]))
        return tiles.float() / 255, tiles[:, 0].float().mean((1, 2)) / 255


def loader(folder, batch, count=3000, bands=4, side=32):
    path = os.path.join(folder, "tiles.npy")
    base = np.random.default_rng(8).integers(0, 256, (count, bands, side, side), dtype=np.uint8)
    np.save(path, base // np.arange(1, count + 1).reshape(-1, 1, 1, 1).clip(max=9).astype(np.uint8))
    tiles = Tiles(path)
    return DataLoader(tiles, batch_size=None, sampler=BatchSampler(RandomSampler(tiles), batch, drop_last=True))
