import functools

import torch
from torch import nn


class Engines(torch.utils.data.Dataset):
    """Sound of engines, two seconds each, and what is wrong with them. Takes a list of places, gives a batch."""

    def __init__(self, count=1280, length=8192, faults=5):
        self.fault = torch.randint(0, faults, (count,))
        clock = torch.arange(length) / 4096
        speed = 80 + 40 * self.fault.unsqueeze(1) + 10 * torch.rand(count, 1)
        self.waves = torch.sin(6.28 * speed * clock) + 0.8 * torch.randn(count, length)

    def __len__(self):
        return len(self.fault)

    def __getitem__(self, picked):
        return self.waves[picked], self.fault[picked]


@functools.lru_cache
def bank(bands, bins):
    """Triangles, close together at the bottom."""
    centres = torch.linspace(0, 1, bands + 2).pow(1.6) * (bins - 1)
    bins = torch.arange(bins).unsqueeze(0)
    low, middle, high = centres[:-2, None], centres[1:-1, None], centres[2:, None]
    return torch.minimum((bins - low) / (middle - low + 1), (high - bins) / (high - middle + 1)).clamp(min=0)


def pictures(waves, bands=48, frame=512, hop=64):
    """Log spectra in bands."""
    waves = waves * (0.8 + 0.4 * torch.rand(len(waves), 1))
    spectrum = torch.stft(waves, frame, hop, window=torch.hann_window(frame), return_complex=True)
    power = torch.view_as_real(spectrum).square().sum(-1)
    return torch.log1p(bank(bands, frame // 2 + 1) @ power)


class Listener(nn.Module):
    def __init__(self, bands=48, width=48, faults=5):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(bands, width, 5, 2, 2), nn.ReLU(), nn.Conv1d(width, 2 * width, 5, 1, 2), nn.ReLU(),
            nn.Conv1d(2 * width, 2 * width, 5, 1, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(2 * width, faults),
        )

    def forward(self, pictures):
        return self.net(pictures)
