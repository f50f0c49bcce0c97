import torch
from torch import nn
from torch.utils.data import Dataset


class Melts(Dataset):
    """What went into a melt, and how hard it came out."""

    def __init__(self, count=20000, metals=64):
        self.parts = torch.rand(count, metals).softmax(1)
        self.hard = (self.parts @ torch.randn(metals, 4)).sin()

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, place):
        return self.parts[place], self.hard[place]


class Alloy(nn.Module):
    def __init__(self, metals=64, width=384, depth=2):
        super().__init__()
        layers = [nn.Linear(metals, width), nn.GELU()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()]
        self.net = nn.Sequential(*layers, nn.Linear(width, 4))

    def forward(self, parts):
        return self.net(parts)
