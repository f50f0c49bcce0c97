import torch
from torch import nn


class Delay(nn.Module):
    """Delay of a train at the next stations, by those passed; nearly every station occurs in each batch."""

    def __init__(self, stations=700, size=48, width=640):
        super().__init__()
        self.stations = nn.Embedding(stations, size)
        self.net = nn.Sequential(
            nn.Linear(8 * size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4),
        )

    def forward(self, passed):
        return self.net(self.stations(passed).flatten(1))


def rides(count, stations=700):
    passed = torch.randint(0, stations, (count, 8))
    return passed, (passed[:, 4:] % 11).float() / 11
