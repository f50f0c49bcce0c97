from torch import nn
from torch.nn import functional as F


class Heads(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.count = count
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (self.count, 3, -1)).permute(3, 0, 2, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.mix(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.heads = Heads(width, count)
        self.net = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        x = x + self.heads(self.first(x))
        return x + self.net(self.second(x))


class Moves(nn.Module):
    """The next move of a game, by those before it."""

    def __init__(self, moves=400, width=128, count=16, layers=3, length=40):
        super().__init__()
        self.moves, self.places = nn.Embedding(moves, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, count) for _ in range(layers)))
        self.out = nn.Linear(width, moves)

    def forward(self, x):
        return self.out(self.blocks(self.moves(x) + self.places.weight))
