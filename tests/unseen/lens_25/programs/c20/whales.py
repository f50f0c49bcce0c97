import numpy as np
import torch
from torch import nn


class Hydrophone:
    """A long recording under water, of which windows are drawn, and whether a whale calls in each."""

    def __init__(self, seconds=600, rate=2000, window=2048, seed=6):
        self.random = np.random.default_rng(seed)
        self.sound = self.random.standard_normal(seconds * rate).astype(np.float32)
        self.window = window
        self.starts = np.arange(0, len(self.sound) - window, window)
        self.calls = self.random.integers(0, 2, len(self.starts))
        tone = np.sin(np.arange(window) * 0.09).astype(np.float32)
        for start in self.starts[self.calls == 1]:
            self.sound[start:start + window] += 0.4 * tone

    def draw(self, batch):
        picked = self.random.choice(len(self.starts), batch, replace=False)
        windows = [self.sound[self.starts[p]:self.starts[p] + self.window] for p in picked]
        labels = self.calls[picked].astype(np.float32)
        return torch.tensor(windows).unsqueeze(1), torch.from_numpy(labels)  #: LINE


def listener(width=40):
    return nn.Sequential(
        nn.Conv1d(1, width, 32, 8, 12), nn.ReLU(), nn.Conv1d(width, 2 * width, 9, 1, 4), nn.ReLU(),
        nn.Conv1d(2 * width, 2 * width, 9, 4, 4), nn.ReLU(), nn.Conv1d(2 * width, 2 * width, 9, 2, 4), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(2 * width, 1), nn.Flatten(0),
    )
