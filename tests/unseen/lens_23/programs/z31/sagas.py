import torch
from torch import nn
from torch.nn import functional as F


class Line(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.slim = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.one(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.slim(F.gelu(self.wide(self.two(x))))


class Saga(nn.Module):
    def __init__(self, runes=400, words=12000, width=128, lines=6):
        super().__init__()
        self.rune = nn.Embedding(runes, width)
        self.lines = nn.ModuleDict({str(place): Line(width) for place in range(lines)})
        self.norm, self.say = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x):
        if self.rune is not None:
            x = self.rune(x)
        for line in self.lines.values():
            x = line(x)
        return x if self.say is None else self.say(self.norm(x))


def part(saga, stage):
    """The part of the model for one of two stages; the others are dropped."""
    cut = len(saga.lines) // 2  #: LINE
    for place in range(len(saga.lines)):
        if (place >= cut) != (stage == 1):
            del saga.lines[str(place)]
    if stage == 0:
        saga.norm = saga.say = None
    else:
        saga.rune = None
    return saga


def tell(count=800, length=48, runes=400, words=12000):
    """Lines of runes, and the word of a saga that is carved with each."""
    start, leap = torch.randint(0, runes, (count, 1)), torch.randint(1, 30, (count, 1))
    carved = (start + leap * torch.arange(length)) % runes
    return carved, (carved * 29 + leap * 7) % words
