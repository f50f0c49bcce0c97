import numpy as np
import torch
from torch.utils.data import Dataset

RATE, N_FFT, HOP, MELS = 16000, 512, 200, 64


def hz_to_mel(f):
    return 2595.0 * np.log10(1.0 + f / 700.0)


def mel_to_hz(m):
    return 700.0 * (10.0 ** (m / 2595.0) - 1.0)


def mel_filters(rate=RATE, n_fft=N_FFT, mels=MELS):
    points = mel_to_hz(np.linspace(hz_to_mel(20.0), hz_to_mel(rate / 2), mels + 2))
    freqs = np.linspace(0.0, rate / 2, n_fft // 2 + 1)
    bank = np.zeros((mels, len(freqs)), dtype=np.float32)
    for m in range(mels):
        left, mid, right = points[m], points[m + 1], points[m + 2]
        rising = (freqs - left) / (mid - left)
        falling = (right - freqs) / (right - mid)
        bank[m] = np.maximum(0.0, np.minimum(rising, falling))
    return torch.from_numpy(bank)


class Commands(Dataset):
    def __init__(self, count=900, classes=12, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(classes, (count,), generator=g)
        t = torch.arange(8000) / RATE
        tone = 200.0 + 90.0 * self.labels[:, None]
        self.waves = torch.sin(2 * torch.pi * tone * t) + 0.3 * torch.randn(count, 8000, generator=g)
        self.window = torch.hann_window(N_FFT)

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, i):
        shift = int(torch.randint(-800, 800, ()))
        wave = self.waves[i].roll(shift)
        spec = torch.stft(wave, N_FFT, HOP, window=self.window, return_complex=True)
        mel = mel_filters() @ spec.abs().square()  #: LINE
        return torch.log(mel + 1e-6)[None], self.labels[i]
