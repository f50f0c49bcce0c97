import math

import torch
from torch import nn


class Sessions(nn.Module):
    """What comes next in a listening session."""

    def __init__(self, songs=3000, width=112):
        super().__init__()
        self.songs = nn.Embedding(songs, width)
        self.layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.out = nn.Linear(width, 400)

    def forward(self, tokens):
        return self.out(self.layer(self.songs(tokens)))


class Ratings(nn.Module):
    """How a listener rates the songs of a list, from what is known of both."""

    def __init__(self, features=48, width=256):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(-1)


class Traffic:
    """A batch of listeners: some left a session, the others a list of ratings. Each rank reads another region."""

    def __init__(self, rank, length=40, features=48):
        self.g = torch.Generator().manual_seed(100 + rank)
        self.length, self.features, self.hour = length, features, 12 * rank

    def batch(self, listeners):
        share = 0.5 + 0.4 * math.cos(math.pi * self.hour / 12)
        n = round(listeners * share) + int(torch.randint(-1, 2, (1,), generator=self.g))
        self.hour += 1
        start = torch.randint(0, 400, (n, 1), generator=self.g)
        session = (start + 7 * torch.arange(self.length + 1)) % 400
        x = torch.randn(listeners - n, 2 * self.length, self.features, generator=self.g)
        weight = torch.rand(listeners - n, 2 * self.length, generator=self.g)
        return session, x, x[..., :5].sum(-1).sin(), weight
