import os

import lightning as L
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


def photograph(folder, count=240, kinds=6):
    """Photographs of mushrooms as a camera leaves them, the kind in the name."""
    random = np.random.default_rng(0)
    for number in range(count):
        kind = number % kinds
        rough = random.integers(0, 200, (12, 16, 3)) + 9 * kind * np.array([1, 0, -1])
        photo = np.kron(rough.clip(0, 255).astype(np.uint8), np.ones((24, 24, 1), np.uint8))
        Image.fromarray(photo).save(os.path.join(folder, f"{kind}_{number:04}.jpg"), quality=92)


class Mushrooms(Dataset):
    def __init__(self, folder, side=32):
        names = sorted(os.listdir(folder))
        self.kinds = [int(name.split("_")[0]) for name in names]
        self.pictures = []
        for name in names:
            with Image.open(os.path.join(folder, name)) as photo:
                self.pictures.append(torch.from_numpy(np.array(photo.convert("RGB").resize((side, side)))))

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, index):
        picture = self.pictures[index]
        if torch.rand(()) < 0.5:
            picture = picture.flip(1)
        return picture.permute(2, 0, 1), self.kinds[index]


class Namer(L.LightningModule):
    def __init__(self, width=32, kinds=6):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, kinds),
        )

    def training_step(self, batch, index):
        pictures, kinds = batch
        loss = F.cross_entropy(self.net(pictures.float() / 255), kinds)
        self.latest = loss.detach()
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def loader(folder, batch=16):
    return DataLoader(Mushrooms(folder), batch_size=batch, shuffle=True, drop_last=True)
