import torch
from torch import nn


class Shop(nn.Module):
    """Will this visitor buy, by the things looked at before."""

    def __init__(self, things=160000, size=32, width=800):
        super().__init__()
        self.things = nn.Embedding(things, size)  #: LINE
        self.net = nn.Sequential(
            nn.Linear(12 * size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1),
        )

    def forward(self, seen):
        return self.net(self.things(seen).flatten(1)).squeeze(1)


def visits(count, things=160000):
    seen = torch.randint(0, things, (count, 12))
    return seen, (seen[:, 0] % 5 < 2).float()
