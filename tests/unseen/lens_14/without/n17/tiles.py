import torch
from torch import nn
from torch.utils.data import Dataset


class Tiles(Dataset):
    """Few labelled satellite tiles, four bands, turned and mirrored at random."""

    def __init__(self, count=256, size=48, classes=6, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.tiles = torch.rand(count, 4, size, size, generator=g)
        self.masks = torch.randint(classes, (count, size, size), generator=g)

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, i):
        turns = int(torch.randint(4, ()))
        tile, mask = self.tiles[i].rot90(turns, (1, 2)), self.masks[i].rot90(turns, (0, 1))
        if torch.rand(()) < 0.5:
            tile, mask = tile.flip(2), mask.flip(1)
        return tile.contiguous(), mask.contiguous()


class SmallUNet(nn.Module):
    def __init__(self, classes=6, c=16):
        super().__init__()
        self.a, self.b = self.pair(4, c), self.pair(c, 2 * c)
        self.middle = self.pair(2 * c, 2 * c)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.c, self.d = self.pair(4 * c, c), self.pair(2 * c, c)
        self.out = nn.Conv2d(c, classes, 1)

    @staticmethod
    def pair(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())

    def forward(self, x):
        a = self.a(x)
        b = self.b(nn.functional.max_pool2d(a, 2))
        m = self.middle(nn.functional.max_pool2d(b, 2))
        h = self.c(torch.cat([self.up(m), b], 1))
        return self.out(self.d(torch.cat([self.up(h), a], 1)))
