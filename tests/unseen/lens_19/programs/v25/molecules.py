from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.net = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width),
        )

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.mix(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.net(x)


class Molecules(nn.Module):
    """Does it dissolve; by its signs."""

    def __init__(self, signs=40, width=144, depth=2, length=40):
        super().__init__()
        self.signs, self.places = nn.Embedding(signs, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        x = self.signs(x) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return self.out(x.mean(1))
