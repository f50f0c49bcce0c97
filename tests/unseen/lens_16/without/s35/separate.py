import torch
from torch import nn


class Separator(nn.Module):
    """Takes two mixed sources apart, frame by frame."""

    def __init__(self, bins=129, width=448, depth=4):
        super().__init__()
        layers = [nn.Conv1d(bins, width, 3, padding=1), nn.PReLU()]
        for k in range(depth):
            layers += [nn.Conv1d(width, width, 3, padding=2**k, dilation=2**k), nn.PReLU()]
        self.body = nn.Sequential(*layers)
        self.out = nn.Conv1d(width, 2 * bins, 1)

    def forward(self, mixed):
        masks = torch.sigmoid(self.out(self.body(mixed))).chunk(2, 1)
        return torch.stack([m * mixed for m in masks], 1)


class Mixtures(torch.utils.data.Dataset):
    def __init__(self, count=1024, bins=129, frames=14):
        g = torch.Generator().manual_seed(0)
        self.low = torch.rand(count, bins, frames, generator=g) * torch.linspace(1, 0, bins)[:, None]
        self.high = torch.rand(count, bins, frames, generator=g) * torch.linspace(0, 1, bins)[:, None]

    def __len__(self):
        return len(self.low)

    def __getitem__(self, index):
        parts = torch.stack([self.low[index], self.high[index]])
        return parts.sum(0), parts
