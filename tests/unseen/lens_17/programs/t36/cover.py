import torch
from torch import nn


class Tiles(torch.utils.data.Dataset):
    """Satellite tiles of 13 bands, kept in the order of their brightness."""

    def __init__(self, count=1536, side=24, kinds=10):
        g = torch.Generator().manual_seed(0)
        self.kinds = torch.randint(0, kinds, (count,), generator=g)
        self.light = torch.rand(count, generator=g).sort().values
        self.side = side

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(index)
        tile = self.light[index] + 0.3 * torch.randn(13, self.side, self.side, generator=g)
        kind = int(self.kinds[index])
        tile[kind] += 0.5
        return tile, kind


class CoverNet(nn.Module):
    def __init__(self, width=56, kinds=10):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(13, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.out = nn.Linear(2 * width, kinds)

    def forward(self, x):
        return self.out(self.body(x))
