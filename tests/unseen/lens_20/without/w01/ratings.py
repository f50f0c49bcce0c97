import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Ratings(Dataset):
    """Who gave which film how many stars."""

    def __init__(self, count=260_000, people=6000, films=2500):
        self.person = torch.randint(0, people, (count,))
        self.film = torch.randint(0, films, (count,))
        self.stars = 3 + torch.randn(people)[self.person] + torch.randn(films)[self.film]

    def __len__(self):
        return len(self.stars)

    def __getitems__(self, picked):
        picked = torch.tensor(picked)
        return self.person[picked], self.film[picked], self.stars[picked]


class Feed:
    def __init__(self, ratings, batch):
        self.loader = DataLoader(ratings, batch, shuffle=True, drop_last=True, collate_fn=tuple)
        self.batches = iter(self.loader)

    def draw(self):
        return next(self.batches)


class Stars(nn.Module):
    def __init__(self, people=6000, films=2500, width=24):
        super().__init__()
        self.people, self.films = nn.Embedding(people, width), nn.Embedding(films, width)
        self.net = nn.Sequential(nn.Linear(2 * width, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, 1))

    def forward(self, person, film):
        return self.net(torch.cat([self.people(person), self.films(film)], 1)).squeeze(1)
