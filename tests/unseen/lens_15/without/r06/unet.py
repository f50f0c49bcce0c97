import torch
from torch import nn
from torch.nn import functional as F


def double(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1), nn.GroupNorm(8, outside), nn.ReLU(),
        nn.Conv2d(outside, outside, 3, padding=1), nn.GroupNorm(8, outside), nn.ReLU(),
    )


class UNet(nn.Module):
    def __init__(self, classes=8, width=8):
        super().__init__()
        self.down1, self.down2, self.down3 = double(3, width), double(width, 2 * width), double(2 * width, 4 * width)
        self.up2, self.up1 = double(6 * width, 2 * width), double(3 * width, width)
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.down3(F.max_pool2d(b, 2))
        b = self.up2(torch.cat([b, F.interpolate(c, scale_factor=2)], 1))
        return self.out(self.up1(torch.cat([a, F.interpolate(b, scale_factor=2)], 1)))
