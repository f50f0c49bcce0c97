import numpy as np
import torch
from torch.utils.data import Dataset


def observe(index, length=384):
    """One spectrum as the telescope's archive gives it, cleaned: a line whose place tells the speed of the star."""
    random = np.random.default_rng(index)
    place = 40 + 300 * random.random()
    light = np.exp(-((np.arange(length) - place) / 6) ** 2) + 0.2 * random.standard_normal(length)
    return light.astype(np.float32), np.float32(place / length)


class Spectra(Dataset):
    """Cleaned spectra, each cleaned but once."""

    def __init__(self, rank, ranks, count=3000):
        self.places = range(rank, count, ranks)
        self.cache = {place: observe(place) for place in self.places}

    def __len__(self):
        return len(self.places)

    def __getitem__(self, index):
        light, speed = self.cache[self.places[index]]
        return torch.from_numpy(light), speed
