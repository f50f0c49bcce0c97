import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.within = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

    def forward(self, x):
        x = x + self.across(self.one(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.two(x))


class Mixer(nn.Module):
    def __init__(self, side=32, patch=4, width=128, depth=3, classes=10):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*[Block((side // patch) ** 2, width) for _ in range(depth)])
        self.out = nn.Linear(width, classes)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        return self.out(self.blocks(x).mean(1))


def pictures(count=800, classes=10):
    g = torch.Generator().manual_seed(3)
    labels = torch.randint(0, classes, (count,), generator=g)
    centre = torch.randn(classes, 3, 32, 32, generator=g)
    return centre[labels] + torch.randn(count, 3, 32, 32, generator=g), labels
