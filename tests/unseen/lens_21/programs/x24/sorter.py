import torch
from torch import nn
from torch.nn import functional as F


class Reach(nn.Module):
    """Looks at so many words at a time."""

    def __init__(self, width, channels, words):
        super().__init__()
        self.scan = nn.Conv1d(width, channels, words)

    def forward(self, x):
        return F.relu(self.scan(x)).amax(2)


class Sorter(nn.Module):
    def __init__(self, words=2500, width=80, channels=96, reaches=(2, 3, 4, 5, 7), teams=10):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.reaches = nn.ModuleList([Reach(width, channels, reach) for reach in reaches])
        self.out = nn.Sequential(nn.Dropout(0.2), nn.Linear(channels * len(reaches), teams))

    def forward(self, text):
        x = self.words(text).transpose(1, 2)
        return self.out(torch.cat([reach(x) for reach in self.reaches], 1))
