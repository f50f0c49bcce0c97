import torch
from torch import nn


class Shape(nn.Module):
    def __init__(self, width=112, kinds=2):
        super().__init__()
        self.each = nn.Sequential(
            nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.all = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, kinds))

    def forward(self, points, whose, count):
        seen = self.each(points)
        sums = seen.new_zeros(count, seen.shape[1]).index_add(0, whose, seen)
        return self.all(sums / torch.bincount(whose, minlength=count).unsqueeze(1))
