import torch
from torch import nn


class Recommender(nn.Module):
    def __init__(self, users, items, dim=48, hidden=256):
        super().__init__()
        self.user = nn.Embedding(users, dim, sparse=False)
        self.item = nn.Embedding(items, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, users, items):
        return self.mlp(torch.cat([self.user(users), self.item(items)], -1)).squeeze(-1)
