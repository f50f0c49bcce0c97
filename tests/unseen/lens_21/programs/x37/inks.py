import torch
from torch import nn


class Inks(nn.Module):
    """Squeezes the spectrum of an ink to a few numbers and back."""

    def __init__(self, bands=400, width=512, few=24):
        super().__init__()
        self.squeeze = nn.Sequential(nn.Linear(bands, width, bias=False), nn.Tanh(), nn.Linear(width, few, bias=False))
        self.back = nn.Sequential(nn.Tanh(), nn.Linear(few, width, bias=False), nn.Tanh(), nn.Linear(width, bands, bias=False))

    def forward(self, x):
        return self.back(self.squeeze(x))


def spectra(count=5000, bands=400):
    line = torch.linspace(0, 1, bands)
    peaks, widths = torch.rand(2, count, 3, 1)
    return (-((line - peaks) / (0.05 + 0.2 * widths)).square()).exp().sum(1)
