import torch
from torch import nn
from torch.nn import functional as F


def menus(count=12000, length=48, words=512):
    """A collection of menus, each a record: words by number, place and price."""
    follow = torch.randint(0, words, (words, 3))
    rows = [torch.randint(0, words, (count,))]
    for _ in range(length):
        rows.append(follow[rows[-1], torch.randint(0, 3, (count,))])
    prices = torch.rand(count).mul_(40).tolist()
    return [
        {"words": row, "place": {"table": number % 90}, "prices": [price]}
        for number, (row, price) in enumerate(zip(torch.stack(rows, 1).tolist(), prices))
    ]


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Writer(nn.Module):
    def __init__(self, words=512, width=128, heads=4, layers=3, length=48):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))
