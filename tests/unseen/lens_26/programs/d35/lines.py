import torch
from torch import nn


class Delays(nn.Module):
    """How late a train will be, from its stops so far; a row for each of 400 stations."""

    def __init__(self, stations=400, width=48, inner=160):
        super().__init__()
        self.stations = nn.Embedding(stations, width)
        self.over = nn.GRU(width + 1, inner, batch_first=True)
        self.late = nn.Sequential(nn.Linear(inner, inner), nn.ReLU(), nn.Linear(inner, 1))

    def forward(self, stops, minutes):
        x = torch.cat([self.stations(stops), minutes.unsqueeze(2)], 2)
        return self.late(self.over(x)[1][0]).squeeze(1)


def timetable(count=20000, stations=400, stops=12):
    made = torch.Generator().manual_seed(91)
    path = torch.randint(0, stations, (count, stops), generator=made)
    minutes = torch.randn(count, stops, generator=made).cumsum(1) / 3
    return path, minutes, minutes[:, -1] + (path[:, -1] % 7) / 7
