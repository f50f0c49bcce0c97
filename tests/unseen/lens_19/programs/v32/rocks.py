import torch
from torch import nn


class Rocks(nn.Module):
    """Kind of a rock by its spectrum."""

    def __init__(self, bands=256, kinds=14, width=48):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 7, 2, 3), nn.ReLU(), nn.Conv1d(width, width, 5, 1, 2), nn.ReLU(),
            nn.Conv1d(width, width, 5, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(),
            nn.Linear(4 * width, kinds),
        )

    def forward(self, x):
        return self.net(x[:, None])


def spectra(seed, count=3000, bands=256, kinds=14):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(count, bands, generator=g), torch.randint(0, kinds, (count,), generator=g)
