import torch
from torch import nn
from torch.distributed.fsdp import fully_shard


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.first(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.feed(self.second(x))


class Reader(nn.Module):
    """Says of a clause of a contract which of nine kinds it is."""

    def __init__(self, words=600, width=128, heads=4, depth=2, kinds=9):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList([Layer(width, heads) for _ in range(depth)])
        self.out = nn.Linear(width, kinds)

    def forward(self, x):
        x = self.words(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(x.mean(1))


def sharded(model):
    return fully_shard(model, reshard_after_forward=False)


def clauses(count=3000, length=20, words=600, kinds=9):
    kind = torch.randint(0, kinds, (count,))
    text = (torch.rand(count, length) ** (1 + kind.view(-1, 1) / 3) * words).long()
    return text, kind
