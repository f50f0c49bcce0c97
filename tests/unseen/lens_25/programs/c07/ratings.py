import torch
from torch import nn
from torch.utils.data import Dataset


class Ratings(Dataset):
    """Who gave which board game how many stars. Fetches a whole batch at once."""

    def __init__(self, count=300_000, people=3000, games=800):
        self.people = torch.randint(0, people, (count,))
        self.games = torch.randint(0, games, (count,))
        taste, kind = torch.randn(people, 6), torch.randn(games, 6)
        self.stars = (taste[self.people] * kind[self.games]).sum(1).tanh() + 0.1 * torch.randn(count)

    def __len__(self):
        return len(self.stars)

    def __getitem__(self, index):
        return self.people[index], self.games[index], self.stars[index]

    def __getitems__(self, picked):
        return self[torch.tensor(picked)]


class Recommender(nn.Module):
    def __init__(self, people=3000, games=800, width=32, hidden=768):
        super().__init__()
        self.people, self.games = nn.Embedding(people, width), nn.Embedding(games, width)
        self.score = nn.Sequential(
            nn.Linear(2 * width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def forward(self, people, games):
        return self.score(torch.cat([self.people(people), self.games(games)], 1)).squeeze(1)
