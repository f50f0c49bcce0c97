import torch
from torch import nn
from torch.utils.data import Dataset


class Clicks(Dataset):
    """Adverts that were shown: who, which, where, when, and whether they were clicked."""

    sizes = (5000, 800, 60, 24)

    def __init__(self, count=300_000):
        self.shown = torch.stack([torch.randint(0, size, (count,)) for size in self.sizes], 1)
        odds = torch.sin(self.shown[:, 0] * 0.1) + torch.cos(self.shown[:, 1] * 0.3)
        self.clicked = (odds + torch.randn(count) > 1).float()

    def __len__(self):
        return len(self.shown)

    def __getitems__(self, picked):
        picked = torch.tensor(picked)
        return self.shown[picked], self.clicked[picked]


def ready(batch):
    return batch


class Odds(nn.Module):
    def __init__(self, size=16, width=512):
        super().__init__()
        starts = torch.tensor((0, *Clicks.sizes[:-1])).cumsum(0)
        self.register_buffer("starts", starts)
        self.table = nn.Embedding(sum(Clicks.sizes), size)
        self.deep = nn.Sequential(
            nn.Linear(size * len(Clicks.sizes), width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1),
        )

    def forward(self, shown):
        return self.deep(self.table(shown + self.starts).flatten(1)).squeeze(1)
