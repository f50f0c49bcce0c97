import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset


class Hearts(Dataset):
    """Twelve leads of an ECG, and the rhythm a doctor saw in it."""

    def __init__(self, count=1500, leads=12, length=250, rhythms=5):
        random = np.random.default_rng(0)
        self.rhythm = random.integers(0, rhythms, count)
        clock = np.arange(length) / 40
        beat = np.sin(clock * (2 + self.rhythm[:, None]) + 6 * random.random((count, 1)))
        gain = 0.5 + random.random((count, leads, 1))
        self.leads = (gain * beat[:, None] + 0.4 * random.standard_normal((count, leads, length))).astype(np.float32)

    def __len__(self):
        return len(self.rhythm)

    def __getitem__(self, index):
        lead = self.leads[index]
        return lead - lead.mean(1, keepdims=True), self.rhythm[index]


def collate(items):
    leads, rhythms = zip(*items)
    return torch.tensor(leads, dtype=torch.float32), torch.tensor(rhythms)  #: LINE


def network(leads=12, width=64, rhythms=5):
    return nn.Sequential(
        nn.Conv1d(leads, width, 7, 2, 3), nn.ReLU(), nn.Conv1d(width, 96, 5, 1, 2), nn.ReLU(),
        nn.Conv1d(96, 96, 5, 2, 2), nn.ReLU(), nn.Conv1d(96, 128, 3, 1, 1), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, rhythms),
    )
