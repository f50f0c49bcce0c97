import torch
from torch import nn


class Ranker(nn.Module):
    """Two towers over bags of items, with a deep part over their product."""

    def __init__(self, users=4000, items=6000, dim=96, width=512):
        super().__init__()
        self.users = nn.Embedding(users, dim)
        self.items = nn.Embedding(items, dim)
        self.history = nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, dim))
        self.deep = nn.Sequential(
            nn.Linear(4 * dim, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
        )

    def forward(self, user, past, item):
        u, i = self.users(user), self.items(item)
        h = self.history(self.items(past)).mean(1)
        return self.deep(torch.cat([u, i, h, i * h], 1)).squeeze(1)
