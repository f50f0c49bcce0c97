import torch
from torch import nn
from torch.utils.data import Dataset


class Pairs(Dataset):
    """Dishes as a smell (90 numbers of a nose) and a list of 16 spices."""

    def __init__(self, count=4000, spices=500):
        made = torch.Generator().manual_seed(6)
        self.spices = torch.randint(0, spices, (count, 16), generator=made)
        smell = torch.randn(spices, 90, generator=made)
        self.smells = smell[self.spices].mean(1) + 0.1 * torch.randn(count, 90, generator=made)

    def __len__(self):
        return len(self.spices)

    def __getitem__(self, index):
        return self.smells[index], self.spices[index]


class TwoTowers(nn.Module):
    def __init__(self, width=384, code=64, spices=500):
        super().__init__()
        self.smell = nn.Sequential(
            nn.Linear(90, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, code),
        )
        self.list = nn.Sequential(
            nn.EmbeddingBag(spices, width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, code),
        )
        self.scale = nn.Parameter(torch.tensor(2.5))

    def forward(self, smells, spices):
        unit = nn.functional.normalize
        return unit(self.smell(smells), dim=1), unit(self.list(spices), dim=1), self.scale.exp()
