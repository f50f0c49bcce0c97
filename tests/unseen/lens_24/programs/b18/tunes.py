import random

import torch
from torch import nn


def playlists(count=600, songs=3000, seed=9):
    """Songs of a list lie near each other; kept in the order in which they were added."""
    dice, lists = random.Random(seed), []
    for _ in range(count):
        centre = dice.randrange(songs)
        lists.append(list(dict.fromkeys(int(dice.gauss(centre, 150)) % songs for _ in range(200))))
    return lists


class Triples:
    def __init__(self, lists, songs=3000, window=8, seed=0):
        self.lists, self.songs, self.window = lists, songs, window
        self.inside = [frozenset(songs) for songs in lists]
        self.dice = random.Random(seed)

    def outside(self, place):
        while True:
            song = self.dice.randrange(self.songs)
            if song not in self.inside[place]:
                return song

    def batch(self, size):
        heard, right, wrong = [], [], []
        for place in self.dice.choices(range(len(self.lists)), k=size):
            start = self.dice.randrange(len(self.lists[place]) - self.window)
            heard.append(self.lists[place][start:start + self.window])
            right.append(self.lists[place][start + self.window])
            wrong.append(self.outside(place))
        return torch.tensor(heard), torch.tensor(right), torch.tensor(wrong)


class Next(nn.Module):
    def __init__(self, songs=3000, width=96, hidden=512):
        super().__init__()
        self.songs = nn.Embedding(songs, width)
        self.past = nn.GRU(width, hidden // 2, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden // 2, hidden), nn.ReLU(), nn.Linear(hidden, width))

    def forward(self, heard, right, wrong):
        state = self.head(self.past(self.songs(heard))[0][:, -1])
        return ((self.songs(right) - self.songs(wrong)) * state).sum(1)
