import functools
import os

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset


def scan(folder, count=48):
    """Scans of postage stamps, few but large."""
    random = np.random.default_rng(7)
    for number in range(count):
        rough = random.integers(0, 255, (10, 8, 3), dtype=np.uint8)
        Image.fromarray(np.kron(rough, np.ones((40, 40, 1), np.uint8))).save(os.path.join(folder, f"{number:03}.png"))


@functools.lru_cache(maxsize=None)
def opened(path, side):
    with Image.open(path) as scanned:
        small = np.array(scanned.convert("RGB").resize((side, side)))
    return torch.from_numpy(small).permute(2, 0, 1).float().div_(255)


class Stamps(Dataset):
    """Two damaged views of a stamp that belong together."""

    def __init__(self, folder, side=32):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        self.side = side

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return opened(self.paths[index], self.side)


class Views(nn.Module):
    def __init__(self, width=24, code=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
            nn.Linear(8 * width, code),
        )

    def forward(self, pictures):
        damaged = pictures + 0.1 * torch.randn_like(pictures)
        return nn.functional.normalize(self.net(damaged), dim=1)
