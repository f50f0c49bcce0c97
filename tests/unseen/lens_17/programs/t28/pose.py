import torch
from torch import nn


class PoseNet(nn.Module):
    """Heat maps of 14 joints."""

    def __init__(self, width=40, joints=14):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2), nn.ReLU(),
            nn.Conv2d(width, width, 5, padding=2), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
        )
        self.out = nn.Conv2d(width, joints, 1)

    def forward(self, x):
        return self.out(self.body(x))


def heat(places, side, spread=1.5):
    """A bump around each joint, drawn joint by joint for the whole batch."""
    axis = torch.arange(side, dtype=torch.float32)
    maps = []
    for joint in range(places.shape[1]):
        x, y = places[:, joint, 0], places[:, joint, 1]
        across = torch.exp(-((axis - x[:, None]) / spread) ** 2 / 2)
        down = torch.exp(-((axis - y[:, None]) / spread) ** 2 / 2)
        maps.append(down[:, :, None] * across[:, None, :])
    return torch.stack(maps, 1)


def figures(count, generator, side=32, joints=14):
    places = 4 + (side - 8) * torch.rand(count, joints, 2, generator=generator)
    maps = heat(places, side)
    strength = torch.linspace(0.3, 1.0, joints).view(1, -1, 1, 1)
    return (strength * maps).sum(1, keepdim=True) + 0.05 * torch.randn(count, 1, side, side, generator=generator), maps
