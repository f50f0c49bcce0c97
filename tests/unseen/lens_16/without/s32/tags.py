import torch
from torch import nn


class MultiLabel(nn.Module):
    def __init__(self, labels=40, width=28):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, 1, 1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Conv2d(2 * width, 4 * width, 3, 1, 1), nn.ReLU(),
        )
        self.head = nn.Linear(4 * width, labels)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def batch(size, pattern, g):
    labels = (torch.rand(size, len(pattern), generator=g) < 0.05).float()
    x = torch.einsum("nl,lchw->nchw", labels, pattern) + 0.5 * torch.randn(size, 3, 32, 32, generator=g)
    return x, labels
