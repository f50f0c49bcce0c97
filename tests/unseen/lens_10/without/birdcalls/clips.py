import math

import torch
from torch.utils.data import Dataset

RATE = 16000


def filterbank(bands, bins):
    centres = torch.linspace(0, bins - 1, bands + 2)
    k = torch.arange(bins).float()
    left, mid, right = centres[:-2, None], centres[1:-1, None], centres[2:, None]
    return torch.minimum((k - left) / (mid - left), (right - k) / (right - mid)).clamp(min=0)


class Clips(Dataset):
    """Short recordings of a few species, made from chirps and noise."""

    def __init__(self, count, species=8, seconds=1.5, seed=3):
        g = torch.Generator().manual_seed(seed)
        n = int(RATE * seconds)
        t = torch.arange(n) / RATE
        self.labels = torch.randint(0, species, (count,), generator=g)
        pitch = 900 + 500 * self.labels[:, None] + 80 * torch.randn(count, 1, generator=g)
        self.waves = torch.sin(2 * math.pi * pitch * t * (1 + 0.2 * t)) + 0.4 * torch.randn(count, n, generator=g)
        self.window = torch.hann_window(512)
        self.mel = filterbank(64, 257)
        self.features = [self.logmel(wave) for wave in self.waves]

    def logmel(self, wave):
        spectrum = torch.stft(wave, 512, 160, window=self.window, return_complex=True)
        return torch.log(self.mel @ spectrum.abs().pow(2) + 1e-5).unsqueeze(0)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.features[i], self.labels[i]
