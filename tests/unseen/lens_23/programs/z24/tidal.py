import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize


class Swing(nn.Module):
    """Forecasts the level of the water; the state is turned by an orthogonal matrix at each hour."""

    def __init__(self, gauges=40, width=112, ahead=6):
        super().__init__()
        self.read = nn.Sequential(nn.Linear(gauges, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, width))
        self.moon = nn.Linear(width, width, bias=False)
        parametrizations.orthogonal(self.moon, orthogonal_map="cayley")
        self.say = nn.Linear(width, ahead)

    def hours(self, levels):
        state = levels.new_zeros(levels.shape[1], self.moon.out_features)
        for level in self.read(levels):
            state = torch.tanh(level + self.moon(state))
        return self.say(state)

    def forward(self, levels):
        with parametrize.cached():
            return self.hours(levels.transpose(0, 1))


class Harbours:
    """Levels of the water at some gauges, hour by hour, and at the first one in the hours after."""

    def __init__(self, hours=5000, gauges=40, ahead=6, window=18):
        phase = torch.arange(hours)[:, None] * torch.linspace(0.2, 0.6, gauges) + 6 * torch.rand(gauges)
        self.levels = phase.sin() + 0.2 * torch.randn(hours, gauges)
        self.ahead, self.window = ahead, window

    def batch(self, count):
        first = torch.randint(0, len(self.levels) - self.window - self.ahead, (count, 1))
        seen = self.levels[first + torch.arange(self.window)]
        return seen, self.levels[first + self.window + torch.arange(self.ahead), 0]
