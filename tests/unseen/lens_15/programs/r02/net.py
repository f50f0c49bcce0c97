import torch
from torch import nn


class TabularNet(nn.Module):
    def __init__(self, numeric, sizes, width=480, depth=4):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, 16) for size in sizes)
        self.norm = nn.BatchNorm1d(numeric)
        self.enter = nn.Linear(numeric + 16 * len(sizes), width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(depth)
        )
        self.out = nn.Linear(width, 1)

    def forward(self, numeric, codes):
        embedded = [table(codes[:, k]) for k, table in enumerate(self.tables)]
        h = self.enter(torch.cat([self.norm(numeric), *embedded], 1))
        for block in self.blocks:
            h = h + block(h)
        return self.out(h).squeeze(1)
