import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Glyphs(Dataset):
    """Drawn digits and letters, tilted a little; drawn large and made small, for smooth edges."""

    signs = "0123456789ABCDEFGHKLMNPRSTUVWXYZ"

    def __init__(self, count=2048, side=32, scale=2):
        self.count, self.side, self.scale = count, side, scale

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        kind = index % len(self.signs)
        wide = self.side * self.scale
        page = Image.new("L", (wide, wide), 255)
        ImageDraw.Draw(page).text((wide // 4, wide // 8), self.signs[kind], fill=0, font_size=0.7 * wide)
        page = page.rotate(torch.randint(-12, 13, ()).item(), Image.Resampling.BILINEAR, fillcolor=255)
        page = page.resize((self.side, self.side), Image.Resampling.LANCZOS)
        return torch.from_numpy(np.asarray(page, np.float32) / 255)[None], kind


def loader(batch=32):
    return DataLoader(Glyphs(), batch, shuffle=True, drop_last=True)


class Reader(nn.Module):
    def __init__(self, width=32, signs=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )
        self.out = nn.Linear(8 * width, signs)

    def forward(self, x):
        return self.out(self.body(x))
