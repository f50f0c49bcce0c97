import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from mel import log_mel


class Keywords(Dataset):
    def __init__(self, count=400, samples=4000, seed=0):
        rng = np.random.default_rng(seed)
        self.signals = rng.normal(size=(count, samples)).astype(np.float32)
        self.words = rng.integers(0, 12, count)

    def __len__(self):
        return len(self.words)

    def __getitem__(self, i):
        quiet = np.float32(0.7 + 0.3 * torch.rand(()).item())
        return torch.from_numpy(log_mel(quiet * self.signals[i])), int(self.words[i])


class Spotter(nn.Module):
    def __init__(self, c=48, words=12):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d((1, 2)), nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d((1, 2)))
        self.rnn = nn.GRU(10 * c, 128, batch_first=True)
        self.out = nn.Linear(128, words)

    def forward(self, x):
        h = self.conv(x[:, None])
        return self.out(self.rnn(h.permute(0, 2, 1, 3).flatten(2))[0][:, -1])
