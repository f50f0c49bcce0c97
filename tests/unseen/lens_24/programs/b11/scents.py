from dataclasses import dataclass, fields, replace

import torch
from torch import nn


@dataclass
class Molecules:
    atoms: torch.Tensor    # batch, atom
    bonds: torch.Tensor    # batch, atom, atom
    weight: torch.Tensor   # batch

    def as_dict(self):
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def at(self, picked):
        return replace(self, **{name: value[picked] for name, value in self.as_dict().items()})


def mix(count=3000, atoms=24, kinds=10):
    kind = torch.randint(kinds, (count, atoms))
    bonds = torch.rand(count, atoms, atoms)
    bonds = (bonds + bonds.transpose(1, 2) > 1.7).float()
    weight = torch.linspace(1, 30, kinds)[kind].sum(1) / 400
    rings = (bonds @ bonds @ bonds).diagonal(dim1=1, dim2=2).sum(1)
    return Molecules(kind, bonds, weight), (rings / rings.max() + weight).sin()


class Nose(nn.Module):
    """How strong does it smell? Three rounds of messages along the bonds."""

    def __init__(self, kinds=10, width=160):
        super().__init__()
        self.kinds = nn.Embedding(kinds, width)
        self.rounds = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.heavy = nn.Linear(1, width)
        self.smell = nn.Linear(width, 1)

    def forward(self, atoms, bonds, weight):
        state = self.kinds(atoms)
        for turn in self.rounds:
            state = state + torch.relu(turn(bonds @ state))
        return self.smell(torch.tanh(state.mean(1) + self.heavy(weight[:, None]))).squeeze(1)
