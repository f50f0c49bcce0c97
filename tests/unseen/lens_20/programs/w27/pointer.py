import torch
from torch import nn


class Pointer(nn.Module):
    """Puts scattered points in order: for each place of the order, the point that stands there."""

    def __init__(self, points=40, width=128, heads=4):
        super().__init__()
        self.enter = nn.Linear(2, width)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, 0.0, batch_first=True)
        self.encode = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.places = nn.Parameter(0.1 * torch.randn(points, width))
        self.point = nn.MultiheadAttention(width, 1, batch_first=True)

    def forward(self, points):
        x = self.encode(self.enter(points))
        places = self.places.expand(len(x), -1, -1)
        _, weights = self.point(places, x, x, need_weights=True)
        return weights


def puzzles(count=1500, points=40):
    scattered = torch.rand(count, points, 2)
    return scattered, scattered[:, :, 0].argsort(1)
