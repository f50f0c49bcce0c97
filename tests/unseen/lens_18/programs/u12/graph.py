import torch
from torch import nn


class Molecules:
    """Random molecules as one block-diagonal list of bonds."""

    def __init__(self, count=400, atoms=24, kinds=32):
        g = torch.Generator().manual_seed(0)
        self.atoms = atoms
        self.x = torch.randn(count, atoms, kinds, generator=g)
        self.bonds = torch.randint(0, atoms, (count, 2, 3 * atoms), generator=g)
        self.y = (self.x[:, :, 0] * self.x[:, :, 1]).sum(1)

    def batch(self, picked):
        shift = torch.arange(len(picked)).view(-1, 1, 1) * self.atoms
        bonds = (self.bonds[picked] + shift).transpose(0, 1).reshape(2, -1)
        return self.x[picked].flatten(0, 1), bonds, self.y[picked]


class Passing(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Linear(width, width)
        self.update = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, h, bonds):
        sent = torch.zeros_like(h).index_add(0, bonds[1], self.message(h).index_select(0, bonds[0]))
        return h + self.update(torch.cat([h, sent], 1))


class Net(nn.Module):
    def __init__(self, kinds=32, width=192, rounds=4):
        super().__init__()
        self.enter = nn.Linear(kinds, width)
        self.rounds = nn.ModuleList(Passing(width) for _ in range(rounds))
        self.leave = nn.Linear(width, 1)

    def forward(self, x, bonds, atoms):
        h = self.enter(x)
        for step in self.rounds:
            h = step(h, bonds)
        return self.leave(h.view(-1, atoms, h.shape[1]).sum(1)).squeeze(1)
