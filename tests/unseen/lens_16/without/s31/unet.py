import torch
from torch import nn


def pair(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, classes=32, width=10):
        super().__init__()
        self.enter, self.middle, self.low = pair(3, width), pair(width, 2 * width), pair(2 * width, 4 * width)
        self.up_two, self.up_one = pair(6 * width, 2 * width), pair(3 * width, width)
        self.down = nn.MaxPool2d(2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        one = self.enter(x)
        two = self.middle(self.down(one))
        low = self.low(self.down(two))
        two = self.up_two(torch.cat([self.up(low), two], 1))
        return self.out(self.up_one(torch.cat([self.up(two), one], 1)))


def scenes(count=48, side=96, classes=32):
    g = torch.Generator().manual_seed(5)
    coarse = torch.randint(0, classes, (count, 1, 12, 12), generator=g).float()
    labels = nn.functional.interpolate(coarse, size=(side, side), mode="nearest").long().squeeze(1)
    colour = torch.randn(classes, 3, generator=g)
    images = colour[labels].permute(0, 3, 1, 2) + 0.3 * torch.randn(count, 3, side, side, generator=g)
    return images.contiguous(), labels
