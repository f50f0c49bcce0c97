import torch
from torch import nn
from torch.nn import functional as F
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, PrepareModuleOutput, RowwiseParallel, SequenceParallel, parallelize_module,
)


class Compare(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.size = width // heads
        self.asks, self.keys, self.gives = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.back = nn.Linear(width, width)

    def forward(self, x):
        cut = lambda y: y.unflatten(-1, (-1, self.size)).transpose(1, 2)
        seen = F.scaled_dot_product_attention(cut(self.asks(x)), cut(self.keys(x)), cut(self.gives(x)))
        return self.back(seen.transpose(1, 2).flatten(2))


class Sheet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before, self.compare = nn.LayerNorm(width), Compare(width)
        self.after, self.wide, self.slim = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.compare(self.before(x))
        return x + self.slim(F.gelu(self.wide(self.after(x))))


class Glacier(nn.Module):
    """How fast the ice moves at each place of a line, from radar echoes along it."""

    def __init__(self, echoes=40, width=160, sheets=2):
        super().__init__()
        self.read = nn.Linear(echoes, width)
        self.sheets = nn.Sequential(*(Sheet(width) for _ in range(sheets)))
        self.speed = nn.Linear(width, 1)

    def forward(self, echoes):
        return self.speed(self.sheets(self.read(echoes))).squeeze(-1)


def spread(model, mesh):
    """Each rank has half of the places; the layers between are cut by width."""
    for sheet in model.sheets:
        parallelize_module(sheet, mesh, {
            "before": SequenceParallel(),
            "compare": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "compare.asks": ColwiseParallel(), "compare.keys": ColwiseParallel(), "compare.gives": ColwiseParallel(),
            "compare.back": RowwiseParallel(output_layouts=Shard(1)),
            "after": SequenceParallel(),
            "wide": ColwiseParallel(input_layouts=Shard(1)),
            "slim": RowwiseParallel(output_layouts=Shard(1)),
        })
    parallelize_module(model, mesh, {
        "read": PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(1)),
        "sheets": PrepareModuleOutput(output_layouts=Shard(1), desired_output_layouts=Replicate()),
    })
    return model
