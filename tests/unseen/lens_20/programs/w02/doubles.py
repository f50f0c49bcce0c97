import torch
from torch import nn
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Doubles(nn.Module):
    """Which of a hundred makers a violin is from, by its sound."""

    def __init__(self, bands=256, width=1024, makers=100):
        super().__init__()
        self.first, self.second = nn.Linear(bands, width), nn.Linear(width, bands)
        self.third, self.fourth = nn.Linear(bands, width), nn.Linear(width, bands)
        self.out = nn.Linear(bands, makers)

    def forward(self, x):
        x = x + self.second(self.first(x).relu())
        x = x + self.fourth(self.third(x).relu())
        return self.out(x)


def split(model, mesh):
    """Only what the loss needs is put together again."""
    return parallelize_module(model, mesh, {
        "first": ColwiseParallel(), "second": RowwiseParallel(),
        "third": ColwiseParallel(), "fourth": RowwiseParallel(),
        "out": ColwiseParallel(output_layouts=Replicate()),
    })
