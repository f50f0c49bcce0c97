import torch
from torch import nn


class Recommender(nn.Module):
    def __init__(self, users=20000, things=12000, width=96):
        super().__init__()
        self.user = nn.Embedding(users, width)
        self.thing = nn.Embedding(things, width)
        self.mix = nn.Sequential(nn.Linear(2 * width, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 1))

    def forward(self, u, t):
        return self.mix(torch.cat([self.user(u), self.thing(t)], -1)).squeeze(-1)
