import torch
from torch import nn


class Light(nn.Module):
    """Turns of a star, by its light."""

    def __init__(self, width=96):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 9, 2, 4), nn.GELU(), nn.Conv1d(width, width, 9, 2, 4), nn.GELU(),
            nn.Conv1d(width, width, 5, 2, 2), nn.GELU(), nn.AdaptiveAvgPool1d(2), nn.Flatten(), nn.Linear(2 * width, 1),
        )

    def forward(self, x):
        return self.net(x.unsqueeze(1)).squeeze(1)


def stars(count=1500, length=192):
    turns = 1 + 5 * torch.rand(count)
    clock = torch.linspace(0, 1, length)
    return (6.283 * turns.unsqueeze(1) * clock).sin() + 0.4 * torch.randn(count, length), turns
