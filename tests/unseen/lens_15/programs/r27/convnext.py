import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.depthwise = nn.Conv2d(dim, dim, 5, padding=2, groups=dim)
        self.norm = nn.GroupNorm(1, dim)
        self.up = nn.Conv2d(dim, 2 * dim, 1)
        self.act = nn.GELU()
        self.down = nn.Conv2d(2 * dim, dim, 1)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(self.depthwise(x)))))


class ConvNeXt(nn.Module):
    def __init__(self, dims=(32, 64), depths=(2, 2), classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, dims[0], 2, stride=2)
        self.first = nn.Sequential(*(Block(dims[0]) for _ in range(depths[0])))
        self.down = nn.Conv2d(dims[0], dims[1], 2, stride=2)
        self.second = nn.Sequential(*(Block(dims[1]) for _ in range(depths[1])))
        self.out = nn.Linear(dims[1], classes)

    def forward(self, x):
        x = self.second(self.down(self.first(self.stem(x))))
        return self.out(x.mean((2, 3)))
