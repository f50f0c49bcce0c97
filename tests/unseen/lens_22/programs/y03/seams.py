import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Seams(Dataset):
    """X-rays of welds, turned and mirrored at random, and where the fault is in each."""

    def __init__(self, count=6000, side=20):
        self.places = torch.randint(2, side - 2, (count, 2))
        self.shots = 0.3 * torch.randn(count, 1, side, side)
        self.shots[torch.arange(count), 0, self.places[:, 0], self.places[:, 1]] += 3.0
        self.side = side

    def __len__(self):
        return len(self.shots)

    def __getitem__(self, index):
        shot, (row, column) = self.shots[index], self.places[index].tolist()
        if torch.rand(()) < 0.5:
            shot, column = shot.flip(2), self.side - 1 - column
        return shot, torch.tensor([row / self.side, column / self.side])


class Finder(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 1, 1), nn.ReLU(), nn.Conv2d(2 * width, 2 * width, 3, 2, 1), nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(2 * width * 25, 2))

    def forward(self, x):
        return self.head(self.body(x))


def loader(batch):
    return DataLoader(Seams(), batch_size=batch, shuffle=True, drop_last=True)
