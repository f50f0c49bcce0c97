import numpy as np
import torch
from torch.utils.data import IterableDataset

POINTS = 128
ENTRY = np.dtype([("echo", np.float32, POINTS), ("far", np.float32)])


def record(path, count=8000):
    """Echoes of a radar and how far away the thing was, entries of one length one behind the other."""
    random = np.random.default_rng(4)
    entries = np.zeros(count, ENTRY)
    entries["far"] = random.random(count)
    places = np.arange(POINTS) / POINTS
    entries["echo"] = np.exp(-((places - entries["far"][:, None]) ** 2) * 200) + 0.2 * random.standard_normal((count, POINTS))
    entries.tofile(path)


class Echoes(IterableDataset):
    """Reads the whole file on each rank, in blocks; of each block a rank takes every `world`-th entry."""

    def __init__(self, path, rank, world, batch):
        self.path, self.rank, self.world = path, rank, world
        self.block = batch * world

    def __iter__(self):
        while True:
            with open(self.path, "rb") as file:
                while len(raw := file.read(self.block * ENTRY.itemsize)) == self.block * ENTRY.itemsize:
                    entries = np.frombuffer(raw, ENTRY)
                    own = entries[self.rank :: self.world]
                    yield torch.from_numpy(own["echo"].copy()), torch.from_numpy(own["far"].copy())
