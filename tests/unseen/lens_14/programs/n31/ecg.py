import numpy as np
import torch
from torch import nn


class Recordings(torch.utils.data.Dataset):
    """Twelve-lead strips, one label for each."""

    def __init__(self, count=480, length=500, seed=0):
        rng = np.random.default_rng(seed)
        phase = np.linspace(0, 40 * np.pi, length)
        self.strips = []
        for _ in range(count):
            rate = rng.uniform(0.6, 1.6)
            gains = rng.normal(size=(12, 1))
            strip = gains * np.sin(rate * phase) + 0.2 * rng.normal(size=(12, length))
            self.strips.append((strip.astype(np.float32), int(rate > 1.1)))

    def __len__(self):
        return len(self.strips)

    def __getitem__(self, i):
        strip, label = self.strips[i]
        strip = (strip - strip.mean(axis=1, keepdims=True)) / (strip.std(axis=1, keepdims=True) + 1e-6)
        return strip, label


def collate(batch):
    strips = torch.tensor([strip for strip, _ in batch], dtype=torch.float32)  #: LINE
    labels = torch.tensor([label for _, label in batch])
    return strips, labels


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Conv1d(c, c, 7, padding=3, bias=False)
        self.b = nn.Conv1d(c, c, 7, padding=3, bias=False)
        self.na, self.nb = nn.BatchNorm1d(c), nn.BatchNorm1d(c)

    def forward(self, x):
        h = torch.relu(self.na(self.a(x)))
        return torch.relu(x + self.nb(self.b(h)))


def build(c=64, classes=2):
    return nn.Sequential(
        nn.Conv1d(12, c, 15, stride=4, padding=7),
        Residual(c), Residual(c), nn.MaxPool1d(2), Residual(c),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(c, classes),
    )
