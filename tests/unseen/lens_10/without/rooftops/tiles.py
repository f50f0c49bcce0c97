import torch
from torch import nn


def tiles(count, size, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(count, 3, size, size, generator=g) * 0.3
    mask = torch.zeros(count, size, size, dtype=torch.long)
    for k in range(count):
        for kind in (1, 2, 3):
            top, left = torch.randint(0, size - 40, (2,), generator=g).tolist()
            mask[k, top:top + 36, left:left + 30] = kind
            x[k, kind - 1, top:top + 36, left:left + 30] += 0.5
    return x, mask


class Segmenter(nn.Module):
    def __init__(self, classes=4, w=16):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, w, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(w, 2 * w, 3, padding=1), nn.ReLU())
        self.up = nn.Sequential(nn.ConvTranspose2d(2 * w, w, 2, stride=2), nn.ReLU(), nn.Conv2d(w, classes, 1))

    def forward(self, x):
        return self.up(self.down(x))
