import torch
from torch import nn


class Ema(nn.Module):
    """y[t] = a y[t-1] + (1 - a) x[t], with a learnt a."""

    def __init__(self, start=1.0):
        super().__init__()
        self.raw = nn.Parameter(torch.tensor(start))

    def forward(self, x):  # batch, time, channels
        a = self.raw.sigmoid()
        t = torch.arange(x.shape[1])
        lag = (t[:, None] - t).clamp(min=0)
        w = torch.where(t[:, None] >= t, a ** lag, 0.0) * torch.where(t == 0, 1.0, 1 - a)
        return w @ x
