import torch
from torch import nn
from torch.nn import functional as F


class Pyramid(nn.Module):
    """Finds boats in pictures of a harbour, on three levels of detail."""

    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 5, 2, 2), nn.ReLU())
        self.downs = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width << i, width << i + 1, 3, 2, 1), nn.ReLU()) for i in range(3)
        )
        self.heads = nn.ModuleList(nn.Conv2d(width << i + 1, 5, 1) for i in range(3))

    def forward(self, pictures):
        x, found = self.stem(pictures), []
        for down, head in zip(self.downs, self.heads):
            x = down(x)
            found.append(head(x))
        return found


def level_loss(found, boats):
    """Boat or not for each cell, and where it lies in it."""
    total = 0.0
    for guess, truth in zip(found, boats):
        here = truth[:, 0]
        total = total + F.binary_cross_entropy_with_logits(guess[:, 0], here)
        total = total + ((guess[:, 1:] - truth[:, 1:]).abs().mean(1) * here).mean()
    return total


def harbour(count=300, side=96):
    made = torch.Generator().manual_seed(22)
    pictures = torch.randn(count, 3, side, side, generator=made)
    boats = []
    for level in range(3):
        cells = side // (4 << level)
        here = (torch.rand(count, 1, cells, cells, generator=made) < 0.1).float()
        boats.append(torch.cat([here, torch.rand(count, 4, cells, cells, generator=made)], 1))
    return pictures, boats
