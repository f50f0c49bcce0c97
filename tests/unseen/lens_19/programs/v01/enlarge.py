import torch
from torch import nn
from torch.nn import functional as F


class Enlarge(nn.Module):
    """Makes a picture twice as large."""

    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, 12, 3, 1, 1), nn.PixelShuffle(2),
        )

    def forward(self, x):
        return self.net(x)


class Likeness(nn.Module):
    """Distance of two pictures in the features of a fixed net; the gradient runs through it to the first one."""

    def __init__(self, width=16):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(),
        ).requires_grad_(False)

    def forward(self, made, real):
        with torch.no_grad():
            goal = self.features(real)
        return F.l1_loss(made, real) + F.mse_loss(self.features(made), goal)
