import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F


class Bond(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide, self.slim, self.loose = nn.Linear(width, 3 * width), nn.Linear(3 * width, width), nn.Dropout(0.2)

    def forward(self, x):
        return x + self.loose(self.slim(F.silu(self.wide(self.norm(x)))))


class Solubility(nn.Module):
    """How well a molecule dissolves, from its fingerprint."""

    def __init__(self, bits=256, width=224, bonds=3):
        super().__init__()
        self.read = nn.Linear(bits, width)
        self.bonds = nn.ModuleList(Bond(width) for _ in range(bonds))
        self.tell = nn.Linear(width, 1)

    def forward(self, prints):
        x = self.read(prints)
        for bond in self.bonds:
            x = bond(x)
        return self.tell(x).squeeze(-1)


def over_ranks(model):
    for bond in model.bonds:
        fully_shard(bond)
    return fully_shard(model)


def unsure(model, prints, times=4):
    """How far the guesses for unlabelled molecules differ with other dropout; the weights stay whole meanwhile."""
    model.set_reshard_after_forward(False)
    with torch.no_grad():
        guesses = torch.stack([model(prints) for _ in range(times)])
    model.set_reshard_after_forward(True)
    return guesses.mean(0), guesses.std(0)
