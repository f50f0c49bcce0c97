import torch
from torch import nn


def chamfer(guess, truth):
    """How far two clouds of points are from each other, both ways, on average."""
    total = 0.0
    for a, b in zip(guess, truth):
        apart = torch.cdist(a, b)  #: LINE
        total = total + apart.amin(1).mean() + apart.amin(0).mean()
    return total / len(guess)


class Completion(nn.Module):
    """From a side view of a vase, as 48 points, to the whole of it."""

    def __init__(self, points=48, width=512):
        super().__init__()
        self.points = points
        self.each = nn.Sequential(nn.Linear(3, 96), nn.ReLU(), nn.Linear(96, 192), nn.ReLU(), nn.Linear(192, width))
        self.whole = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3 * points))

    def forward(self, seen):
        return self.whole(self.each(seen).amax(1)).unflatten(1, (self.points, 3))


def vases(count, points=48):
    """Vases of changing belly and neck, points upon them."""
    height, turn = torch.rand(count, points), 6.283 * torch.rand(count, points)
    belly, neck = torch.rand(count, 1), torch.rand(count, 1)
    radius = 0.4 + 0.5 * belly * torch.sin(3.14 * height) - 0.2 * neck * height
    whole = torch.stack([radius * turn.cos(), radius * turn.sin(), height], 2)
    seen = whole * torch.tensor([1.0, 0.0, 1.0])
    return seen, whole
