import torch
from torch import nn
from torch.utils.data import Dataset


class Clouds(Dataset):
    def __init__(self, count=2400, points=192, classes=8):
        g = torch.Generator().manual_seed(0)
        self.labels = torch.randint(0, classes, (count,), generator=g)
        stretch = 0.3 + torch.rand(classes, 1, 3, generator=g)
        self.points = torch.randn(count, points, 3, generator=g) * stretch[self.labels]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.points[index], self.labels[index]


class PointNet(nn.Module):
    def __init__(self, width=128, classes=8):
        super().__init__()
        self.each = nn.Sequential(
            nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 3 * width), nn.ReLU()
        )
        self.all = nn.Sequential(nn.Linear(3 * width, width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, x):
        return self.all(self.each(x).amax(1))
