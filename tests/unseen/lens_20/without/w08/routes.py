import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = nn.MultiheadAttention(width, heads, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        h = self.before(x)
        h, _ = self.attend(h, h, h, need_weights=False)
        x = x + h
        return x + self.feed(self.after(x))


class Routes(nn.Module):
    """Minutes that a courier needs for a route, by its stops."""

    def __init__(self, features=12, width=64, heads=8, depth=2):
        super().__init__()
        self.enter = nn.Linear(features, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.out = nn.Linear(width, 1)

    def forward(self, stops):
        x = self.enter(stops)
        for layer in self.layers:
            x = layer(x)
        return self.out(x.mean(1)).squeeze(1)


def routes(count=800, stops=120, features=12):
    data = torch.randn(count, stops, features)
    return data, data[:, :, :2].diff(dim=1).norm(dim=-1).mean(1)
