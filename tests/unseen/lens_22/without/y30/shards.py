import torch
from torch import nn


def shards(count=1500, side=20):
    """Painted pot shards: rings about a middle."""
    ways = torch.linspace(-1, 1, side)
    middle = 0.5 * torch.randn(count, 2)
    far = ((ways - middle[:, :1]).square()[:, :, None] + (ways - middle[:, 1:]).square()[:, None]).sqrt()
    return ((6 + 10 * torch.rand(count, 1, 1)) * far).sin().unsqueeze(1)


def seen_anew(pots):
    turned = pots.rot90(int(torch.randint(0, 4, ())), (2, 3))
    return turned * (0.7 + 0.6 * torch.rand(len(pots), 1, 1, 1)) + 0.1 * torch.randn_like(pots)


class Encoder(nn.Module):
    def __init__(self, width=32, out=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
            nn.Linear(16 * width, 128), nn.ReLU(), nn.Linear(128, out),
        )

    def forward(self, x):
        return self.net(x)
