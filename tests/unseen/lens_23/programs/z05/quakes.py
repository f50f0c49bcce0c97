import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset


class Quakes(Dataset):
    """Three axes of a seismometer, and how strong and how far the quake was."""

    def __init__(self, count=2000, axes=3, length=400):
        random = np.random.default_rng(5)
        self.strength = random.random(count)
        self.distance = random.random(count)
        clock = np.arange(length) / 50
        envelope = np.exp(-(clock - 2 - 4 * self.distance[:, None]) ** 2) * self.strength[:, None]
        self.waves = (envelope[:, None] * random.standard_normal((count, axes, length))).astype(np.float32)

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, index):
        return {"wave": self.waves[index], "strength": self.strength[index], "distance": self.distance[index]}


def collate(items):
    waves = torch.from_numpy(np.stack([item["wave"] for item in items]))
    truth = torch.tensor([[item["strength"], item["distance"]] for item in items], dtype=torch.float32)
    return waves, truth


class Locator(nn.Module):
    def __init__(self, axes=3, width=48):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(axes, width, 9, 2, 4), nn.ReLU(), nn.Conv1d(width, 2 * width, 5, 1, 2), nn.ReLU(),
            nn.Conv1d(2 * width, 2 * width, 5, 2, 2), nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(),
        )
        self.head = nn.Linear(8 * width, 2)

    def forward(self, waves):
        return self.head(self.body(waves))
