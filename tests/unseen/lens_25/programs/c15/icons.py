import io

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset


def draw(count=3000, size=40, kinds=10, seed=1):
    """Small pictures as the archive keeps them: JPEG bytes, and the kind of each."""
    random = np.random.default_rng(seed)
    patterns = random.integers(0, 255, (kinds, 5, 5, 3)).repeat(size // 5, 1).repeat(size // 5, 2)
    files, labels = [], random.integers(0, kinds, count)
    for kind in labels:
        picture = (patterns[kind] + random.normal(0, 30, (size, size, 3))).clip(0, 255).astype(np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, "JPEG", quality=80)
        files.append(buffer.getvalue())
    return files, labels.tolist()


class Icons(Dataset):
    def __init__(self, crop=32):
        self.files, self.labels = draw()
        self.crop = crop

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        picture = Image.open(io.BytesIO(self.files[index]))
        left, top = torch.randint(0, picture.width - self.crop + 1, (2,)).tolist()
        pixels = np.array(picture)[top:top + self.crop, left:left + self.crop]
        return torch.from_numpy(pixels).permute(2, 0, 1), self.labels[index]


class IconNet(nn.Module):
    def __init__(self, width=96, kinds=10):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, 1, 1), nn.ReLU(), nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, kinds),
        )

    def forward(self, pixels):
        return self.net(pixels.float().sub_(128).div_(64))
