import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(width, width // 2, 1), nn.ReLU(inplace=True),
            nn.Conv2d(width // 2, width // 2, 3, 1, 1), nn.ReLU(inplace=True),
            nn.Conv2d(width // 2, width, 1),
        )

    def forward(self, x):
        return torch.relu(x + self.net(x))


def coin_net(kinds, width=64):
    """Tells coins apart by a photograph of one side."""
    return nn.Sequential(
        nn.Conv2d(3, width, 5, 2, 2), nn.ReLU(inplace=True),
        Bottleneck(width), Bottleneck(width), nn.AvgPool2d(2), Bottleneck(width), Bottleneck(width),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, kinds),
    )


def photographs(count=1200, kinds=24, side=32):
    kind = torch.randint(0, kinds, (count,))
    looks = torch.rand(kinds, 3, side, side)
    return looks[kind] + 0.3 * torch.randn(count, 3, side, side), kind
