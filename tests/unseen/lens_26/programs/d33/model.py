import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.mix(self.one(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width))
        return x + self.back(F.gelu(self.wide(self.two(x))))


class Letters(nn.Module):
    """Tells the hand (one of 30 writers) from a line of writing cut into 48 strips."""

    def __init__(self, strip=96, strips=48, width=192, heads=4, layers=2, writers=30):
        super().__init__()
        self.enter = nn.Linear(strip, width)
        self.place = nn.Parameter(torch.randn(strips, width) / 10)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.leave = nn.Linear(width, writers)

    def forward(self, x):
        x = self.enter(x) + self.place
        for block in self.blocks:
            x = block(x)
        return self.leave(x.mean(1))
