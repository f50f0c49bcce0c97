import torch
from torch import nn


class Detector(nn.Module):
    """One box and one score for each cell of a coarse grid over the picture."""

    def __init__(self, width=24):
        super().__init__()
        layers, channels = [], 1
        for k in (1, 2, 3):
            layers += [nn.Conv2d(channels, width * k, 3, stride=2, padding=1), nn.BatchNorm2d(width * k), nn.SiLU()]
            channels = width * k
        self.trunk = nn.Sequential(*layers, nn.Conv2d(channels, channels, 3, padding=1), nn.SiLU())
        self.head = nn.Conv2d(channels, 5, 1)

    def forward(self, x):
        y = self.head(self.trunk(x)).flatten(2).transpose(1, 2)
        return y[..., :4], y[..., 4]


def scenes(count, size=96, seed=1):
    g = torch.Generator().manual_seed(seed)
    cells = size // 8
    there = (torch.rand(count, cells * cells, generator=g) < 0.08).float()
    boxes = torch.rand(count, cells * cells, 4, generator=g)
    picture = there.view(count, 1, cells, cells).repeat_interleave(8, 2).repeat_interleave(8, 3)
    return picture + 0.3 * torch.randn(count, 1, size, size, generator=g), boxes, there
