import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    """Short sounds; noise, a shift and a change of volume are made anew each time."""

    def __init__(self, count=2400, length=2048, classes=9, seed=0):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, classes, count)
        pitch = 0.01 * (2.0 + self.labels)[:, None]
        self.waves = np.sin(pitch * np.arange(length)).astype("float32")
        self.length = length

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        rng = np.random.default_rng()
        wave = np.roll(self.waves[index], rng.integers(0, self.length))
        wave = wave * rng.uniform(0.5, 1.5) + 0.3 * rng.standard_normal(self.length, dtype="float32")
        spectrum = np.abs(np.fft.rfft(wave.reshape(16, -1), axis=1))
        return torch.from_numpy(np.log1p(spectrum).astype("float32")), int(self.labels[index])


def loader(batch_size=32):
    return DataLoader(Clips(), batch_size, shuffle=True, drop_last=True, num_workers=1, prefetch_factor=6)
