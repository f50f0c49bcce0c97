from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F


class Pair(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, inner)
        self.back = nn.Linear(inner, width)

    def forward(self, x):
        return x + self.back(F.silu(self.wide(self.norm(x))))


class Rocks(nn.Module):
    """Which of 16 rocks the drill is in, from 64 numbers of its motors."""

    def __init__(self, numbers=64, width=256, inner=2048, pairs=2, kinds=16):
        super().__init__()
        self.enter = nn.Linear(numbers, width)
        self.pairs = nn.ModuleList(Pair(width, inner) for _ in range(pairs))
        self.kind = nn.Linear(width, kinds)

    def forward(self, x):
        x = self.enter(x)
        for pair in self.pairs:
            x = pair(x)
        return self.kind(x)


def spread(model, mesh):
    """The inner widths over the ranks; the small first and last layers stay whole on each."""
    for pair in model.pairs:
        parallelize_module(pair, mesh, {"wide": ColwiseParallel(), "back": RowwiseParallel()})
    return model
