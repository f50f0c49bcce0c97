import torch
from torch import nn


class Ranker(nn.Module):
    """Two towers of ids and a deep part, for click prediction."""

    def __init__(self, users=50_000, items=40_000, width=24, hidden=768):
        super().__init__()
        self.users = nn.Embedding(users, width)  #: LINE
        self.items = nn.Embedding(items, width)
        self.deep = nn.Sequential(
            nn.Linear(2 * width + 16, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1),
        )

    def forward(self, user, item, context):
        u, v = self.users(user), self.items(item)
        deep = self.deep(torch.cat([u, v, context], 1)).squeeze(1)
        return deep + (u * v).sum(1)
