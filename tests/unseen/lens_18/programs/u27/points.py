import torch
from torch import nn


def shapes(count=512, points=256):
    g = torch.Generator().manual_seed(3)
    kind = torch.randint(0, 6, (count,), generator=g)
    cloud = torch.randn(count, points, 3, generator=g)
    stretch = torch.linspace(0.4, 1.6, 6)[kind].view(-1, 1)
    cloud[:, :, 2] *= stretch
    return cloud, kind


class PointNet(nn.Module):
    def __init__(self, kinds=6, width=192):
        super().__init__()
        self.each = nn.Sequential(
            nn.Linear(3, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 2 * width),
        )
        self.whole = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, kinds))

    def forward(self, cloud):
        return self.whole(self.each(cloud).mean(1))
