import torch
from torch import nn
from torch.utils.data import Dataset


class Sway(Dataset):
    """Sway of a bridge at 64 points, and the load on it."""

    def __init__(self, count=14000, points=64):
        maker = torch.Generator().manual_seed(77)
        self.load = torch.rand(count, 8, generator=maker)
        self.sway = torch.tanh(self.load @ torch.randn(8, points, generator=maker))

    def __len__(self):
        return len(self.load)

    def __getitem__(self, index):
        return index, self.sway[index], self.load[index]


class Shake:
    """Joins a batch and adds noise, seeded by the first place in it, so that any batch can be made again."""

    def __init__(self, amount=0.1, seed=500):
        self.amount, self.seed = amount, seed
        self.dice = torch.Generator()

    def __call__(self, rows):
        index, sway, load = zip(*rows)
        sway = torch.stack(sway)
        self.dice.manual_seed(self.seed + index[0])
        return sway + self.amount * torch.randn(sway.shape, generator=self.dice), torch.stack(load)


class Weigh(nn.Module):
    def __init__(self, points=64, width=768):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(points, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, 8),
        )

    def forward(self, sway):
        return self.net(sway)
