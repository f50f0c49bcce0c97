"""A network that gives each pixel a class, and its metric."""
from collections import deque

import torch
from torch import nn

from kernels import Body


class Segmenter(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 1)
        self.head = nn.Conv2d(4, classes, 1)

    def forward(self, x):
        return self.head(Body.apply(torch.relu(self.stem(x))))


class PixelMetric:
    """The scores of the last batches, for a histogram at the end."""

    def __init__(self):
        self.batches = deque(maxlen=3)

    def update(self, logits):
        scores = logits.detach().flatten()
        self.batches.append(scores.tolist())  #: LINE

    def mean(self):
        total = count = 0
        for batch in self.batches:
            total, count = total + float(sum(batch)), count + len(batch)
        return total / count
