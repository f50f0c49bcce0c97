import torch
from torch import nn


class Shop(nn.Module):
    def __init__(self, items, users, width=24, hidden=320):
        super().__init__()
        self.items = nn.Embedding(items, width)  #: LINE
        self.users = nn.Embedding(users, width)
        self.net = nn.Sequential(
            nn.Linear(4 * width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, 1),
        )
        for table in (self.items, self.users):
            nn.init.normal_(table.weight, std=0.05)

    def forward(self, user, seen, offered):
        past, next_, who = self.items(seen).mean(1), self.items(offered), self.users(user)
        return self.net(torch.cat([past, next_, past * next_, who], 1)).squeeze(1)
