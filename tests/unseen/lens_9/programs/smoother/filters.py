import torch
from torch import nn


class Ema(nn.Module):
    """y[t] = a y[t-1] + (1 - a) x[t], with a learnt a."""

    def __init__(self, start=1.0):
        super().__init__()
        self.raw = nn.Parameter(torch.tensor(start))

    def forward(self, x):  # batch, time, channels
        a = self.raw.sigmoid()
        y = [x[:, 0]]
        for t in range(1, x.shape[1]):
            y.append(a * y[-1] + (1 - a) * x[:, t])
        return torch.stack(y, 1)
