import torch
from torch import nn


class Shapes:
    """Point clouds of 16 kinds of shapes, stretched along three axes."""

    def __init__(self, seed, points=256, kinds=16):
        self.g = torch.Generator().manual_seed(seed)
        self.axes = 0.4 + torch.rand(kinds, 3, generator=torch.Generator().manual_seed(8))
        self.points, self.kinds = points, kinds

    def take(self, count):
        kinds = torch.randint(0, self.kinds, (count,), generator=self.g)
        cloud = torch.nn.functional.normalize(torch.randn(count, self.points, 3, generator=self.g), dim=2)
        return cloud * self.axes[kinds, None], kinds


class PointNet(nn.Module):
    def __init__(self, kinds=16):
        super().__init__()
        self.each = nn.Sequential(
            nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 320), nn.ReLU()
        )
        self.out = nn.Sequential(nn.Linear(320, 128), nn.ReLU(), nn.Linear(128, kinds))

    def forward(self, cloud):
        return self.out(self.each(cloud).amax(1))
