import copy

import torch
from torch import nn


class Brook(nn.Module):
    """Level of a brook in six hours from two days of rain and level."""

    def __init__(self, width=128):
        super().__init__()
        self.lstm = nn.LSTM(2, width, batch_first=True)
        self.head = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 6))

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Averaged:
    """Smoothed weights, for the forecasts that go out."""

    def __init__(self, model, decay=0.99):
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        state = model.state_dict()
        for name, smooth in self.model.state_dict().items():
            smooth.lerp_(state[name], 1 - self.decay)


def record(hours=4000, past=48, ahead=6):
    rain = torch.rand(hours) ** 6
    level = torch.nn.functional.avg_pool1d(rain[None], 9, 1, 4)[0]
    both = torch.stack([rain, level], 1)
    windows = both.unfold(0, past + ahead, 1).transpose(1, 2)
    return windows[:, :past], windows[:, past:, 1]
