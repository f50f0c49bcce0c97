import torch
from torch import nn


class PointNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 160), nn.ReLU(), nn.Linear(160, 256))
        self.all = nn.Sequential(nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, classes))

    def forward(self, cloud):
        return self.all(self.each(cloud).amax(1))


def sweeps(count, points=700, classes=5):
    g = torch.Generator().manual_seed(8)
    label = torch.randint(0, classes, (count,), generator=g)
    cloud = torch.randn(count, points, 4, generator=g)
    cloud[..., 2] *= 0.3 + 0.4 * label[:, None]
    return cloud, label
