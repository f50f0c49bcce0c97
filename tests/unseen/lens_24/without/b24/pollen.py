import torch
from torch import nn
from torch.nn import functional as F


def slides(count=1500, patches=36, pixels=64, plants=7):
    """Pictures of grains of pollen, cut into patches, and the plant."""
    plant = torch.randint(0, plants, (count,))
    return torch.randn(plants, patches, pixels)[plant] + 3 * torch.randn(count, patches, pixels), plant


class Block(nn.Module):
    """Mixes the patches, then the channels."""

    def __init__(self, patches, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Linear(patches, patches)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Grains(nn.Module):
    def __init__(self, patches=36, pixels=64, width=128, depth=3, plants=7):
        super().__init__()
        self.enter, self.leave = nn.Linear(pixels, width), nn.Linear(width, plants)
        self.blocks = nn.Sequential(*(Block(patches, width) for _ in range(depth)))

    def forward(self, x):
        return self.leave(self.blocks(self.enter(x)).mean(1))
