import torch
from torch import nn


def days(count=4000, length=24, gauges=12, seed=0):
    """A day of an oven hour by hour, and how the bread came out."""
    source = torch.Generator().manual_seed(seed)
    gauge = torch.randn(count, length, gauges, generator=source).cumsum(1) / 4
    return gauge, gauge[:, -6:, :3].mean((1, 2)).tanh()


class Layer(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.before(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.between(x))))


class Baker(nn.Module):
    def __init__(self, gauges=12, length=24, width=128, depth=2):
        super().__init__()
        self.read = nn.Linear(gauges, width)
        self.hour = nn.Parameter(0.02 * torch.randn(length, width))
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.say = nn.Linear(width, 1)

    def forward(self, x):
        x = self.read(x) + self.hour
        for layer in self.layers:
            x = layer(x)
        return self.say(x.mean(1)).squeeze(1)
