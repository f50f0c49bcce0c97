import torch
from torch import nn
from torch.nn import functional as F


class Gestures(nn.Module):
    def __init__(self, sensors=12, width=96, classes=14):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(sensors, width, 7, 2, 3), nn.ReLU(), nn.Conv1d(width, 2 * width, 5, 2, 2), nn.ReLU(),
            nn.Conv1d(2 * width, 2 * width, 3, 1, 1), nn.ReLU(),
        )
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.head(self.body(x).amax(2))


def recordings(rank, count=640, sensors=12, length=128, classes=14):
    g = torch.Generator().manual_seed(30)
    shape = F.interpolate(torch.randn(classes, sensors, 10, generator=g), length, mode="linear")
    g.manual_seed(31 + rank)
    labels = torch.randint(0, classes, (count,), generator=g)
    return shape[labels] + 0.8 * torch.randn(count, sensors, length, generator=g), labels
