import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, hours, width):
        super().__init__()
        self.calm_time, self.calm_width = nn.LayerNorm(width), nn.LayerNorm(width)
        self.time_in, self.time_out = nn.Linear(hours, 2 * hours), nn.Linear(2 * hours, hours)
        self.width_in, self.width_out = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, h):
        over_time = self.time_out(torch.relu(self.time_in(self.calm_time(h).transpose(1, 2))))
        h = h + over_time.transpose(1, 2)
        return h + self.width_out(torch.relu(self.width_in(self.calm_width(h))))


class Weather(nn.Module):
    """Wind of the next hours at many stations."""

    def __init__(self, channels=12, hours=48, width=192, layers=2, ahead=6):
        super().__init__()
        self.enter = nn.Linear(channels, width)
        self.layers = nn.ModuleList(Layer(hours, width) for _ in range(layers))
        self.leave = nn.Linear(width, ahead)

    def forward(self, x):
        h = self.enter(x)
        for layer in self.layers:
            h = layer(h)
        return self.leave(h.mean(1))
