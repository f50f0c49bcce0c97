import os

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset


def photograph(folder, count=160, size=640, kinds=8, seed=4):
    """Pictures of seashells as the camera wrote them: spirals whose turns tell the kind."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[-1:1:size * 1j, -1:1:size * 1j]
    far, angle = np.hypot(x, y), np.arctan2(y, x)
    for number in range(count):
        kind = int(random.integers(kinds))
        wave = np.sin((kind + 3) * far * 4 + angle + 6 * random.random())
        colours = 128 + 90 * wave[..., None] * random.random(3) + random.normal(0, 2, (size, size, 3))
        Image.fromarray(colours.clip(0, 255).astype(np.uint8)).save(os.path.join(folder, f"{number:04d}_{kind}.jpg"), quality=88)


class Shells(Dataset):
    def __init__(self, folder, size=56):
        self.paths = sorted(entry.path for entry in os.scandir(folder))
        self.size = size

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        with Image.open(path) as picture:
            small = picture.convert("RGB").resize((self.size, self.size), Image.Resampling.BILINEAR)  #: LINE
        pixels = torch.from_numpy(np.array(small)).permute(2, 0, 1)
        return pixels.float().div_(255), int(path[-5])


class ShellNet(nn.Module):
    def __init__(self, width=40, kinds=8):
        super().__init__()
        layers, before = [], 3
        for factor in (1, 2, 4):
            layers += [nn.Conv2d(before, factor * width, 3, 2, 1), nn.ReLU(), nn.Conv2d(factor * width, factor * width, 3, 1, 1), nn.ReLU()]
            before = factor * width
        self.net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, kinds))

    def forward(self, pixels):
        return self.net(pixels)
