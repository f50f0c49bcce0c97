import torch
from torch import nn


class Streets(torch.utils.data.Dataset):
    """Street scenes of 34 kinds of pixels."""

    def __init__(self, count=1600, side=32, kinds=34):
        self.count, self.side, self.kinds = count, side, kinds
        self.colours = torch.rand(kinds, 3, generator=torch.Generator().manual_seed(3))

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(index)
        coarse = torch.randint(0, self.kinds, (self.side // 8, self.side // 8), generator=g)
        labels = coarse.repeat_interleave(8, 0).repeat_interleave(8, 1)
        scene = self.colours[labels].permute(2, 0, 1) + 0.05 * torch.randn(3, self.side, self.side, generator=g)
        return scene, labels


class SegNet(nn.Module):
    def __init__(self, width=32, kinds=34):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU())
        self.down = nn.Sequential(
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(), nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU()
        )
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.out = nn.Conv2d(width, kinds, 1)

    def forward(self, x):
        h = self.first(x)
        return self.out(torch.relu(h + self.up(self.down(h))))
