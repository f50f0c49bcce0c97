import torch
from torch import nn


class Upscaler(nn.Module):
    """Twice the size, by sub-pixel shuffling."""

    def __init__(self, width=48, depth=4):
        super().__init__()
        layers = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
        for _ in range(depth):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Conv2d(width, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x):
        return self.body(x) + nn.functional.interpolate(x, scale_factor=2)


def patches(count, side, generator):
    """Smooth coloured patches, large and small."""
    grid = torch.linspace(0, 6.28, side)
    f = 4 * torch.rand(count, 3, 2, 1, generator=generator)
    large = torch.sin(f[:, :, :1] * grid)[..., None, :] * torch.cos(f[:, :, 1:] * grid)[..., None]
    large = large.reshape(count, 3, side, side)
    return nn.functional.avg_pool2d(large, 2), large
