import math

import torch
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, first, last, series=8, past=72, ahead=12):
        g = torch.Generator().manual_seed(0)
        hours = torch.arange(6000)
        phase = torch.rand(series, 1, generator=g)
        self.values = torch.sin(2 * math.pi * (hours / 24 + phase)) + 0.2 * torch.randn(series, 6000, generator=g)
        self.first, self.last, self.past, self.ahead = first, last, past, ahead

    def __len__(self):
        return self.last - self.first - self.past - self.ahead

    def __getitem__(self, index):
        now = self.first + index + self.past
        return self.values[:, now - self.past:now], self.values[:, now:now + self.ahead]


def loaders(batch_size=48):
    train = DataLoader(Windows(0, 5000), batch_size, shuffle=True, drop_last=True)
    return train, DataLoader(Windows(5700, 5928), batch_size)
