import torch
from torch import nn


def block(channels, out):
    return nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU())


class Loom(nn.Module):
    """Makes a patch of cloth from a code."""

    def __init__(self, code=32, width=56):
        super().__init__()
        self.start = nn.Linear(code, 2 * width * 16)
        self.blocks = nn.Sequential(block(2 * width, 2 * width), block(2 * width, width))
        self.out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, code):
        x = self.start(code).view(len(code), -1, 4, 4)
        return self.out(self.blocks(x)).tanh()


class Inspector(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(width, 2 * width, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(2 * width * 16, 1),
        )

    def forward(self, cloth):
        return self.net(cloth).squeeze(1)


def cloth(count=2000, side=16):
    ways = torch.arange(side).float()
    pitch = 0.4 + 2 * torch.rand(count, 2, 1)
    warp, weft = (pitch[:, 0] * ways).sin(), (pitch[:, 1] * ways).cos()
    return (warp.unsqueeze(2) * weft.unsqueeze(1)).unsqueeze(1)
