import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class Gather(torch.autograd.Function):
    """The rows of all ranks; gradients go back to the rank that owns the rows."""

    @staticmethod
    def forward(ctx, mine):
        parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, mine.contiguous())
        ctx.rows = slice(dist.get_rank() * len(mine), (dist.get_rank() + 1) * len(mine))
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(grad)
        return grad[ctx.rows]


class Tower(nn.Module):
    def __init__(self, inputs, width=256, shared=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inputs, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, shared))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


class Pairs(nn.Module):
    """Scans of pots and the words of the catalogue, brought into one space."""

    def __init__(self, scan=128, words=80):
        super().__init__()
        self.scans, self.words = Tower(scan), Tower(words)
        self.scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, scans, words):
        return self.scans(scans), self.words(words), self.scale.exp()


def contrast(scans, words, scale):
    """Each pair against all pairs of all ranks."""
    every_scan, every_word = Gather.apply(scans), Gather.apply(words)
    likeness = scale * every_scan @ every_word.T  #: LINE
    right = torch.arange(len(likeness))
    return (F.cross_entropy(likeness, right) + F.cross_entropy(likeness.T, right)) / 2


def catalogue(count=12000, scan=128, words=80):
    made = torch.Generator().manual_seed(33)
    pot = torch.randn(count, 40, generator=made)
    return pot @ torch.randn(40, scan, generator=made) / 6, (pot @ torch.randn(40, words, generator=made) / 6).tanh()
