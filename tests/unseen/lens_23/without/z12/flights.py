import numpy as np
import torch
from torch import nn


class Flights:
    """Half a million flights of a year, all in memory, and how late each was."""

    def __init__(self, count=500_000, facts=24, seed=0):
        torch.manual_seed(seed)
        self.random = np.random.default_rng(seed)
        self.facts = torch.randn(count, facts)
        self.late = (self.facts[:, :6].sum(1) * 0.4).tanh() + 0.1 * torch.randn(count)

    def __len__(self):
        return len(self.late)

    def draw(self, batch):
        """A batch in which no flight is twice."""
        picked = torch.from_numpy(self.random.choice(len(self), batch, replace=False))
        return self.facts[picked], self.late[picked]


class Delay(nn.Module):
    def __init__(self, facts=24, width=512):
        super().__init__()
        self.enter = nn.Linear(facts, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(4))
        self.leave = nn.Linear(width, 1)

    def forward(self, facts):
        hidden = self.enter(facts)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return self.leave(hidden).squeeze(1)
