import torch
from torch import nn


class Proteins:
    """Chains of 16 to 160 residues, longest last, so that a batch needs little filling up."""

    def __init__(self, count=1920, kinds=20, states=3):
        g = torch.Generator().manual_seed(0)
        self.lengths = torch.randint(16, 161, (count,), generator=g).sort().values
        self.chains = torch.randint(1, kinds + 1, (count, 160), generator=g)
        self.states = (self.chains + self.chains.roll(1, 1)) % states

    def batch(self, rows):
        longest = int(self.lengths[rows].max())
        keep = torch.arange(longest) < self.lengths[rows, None]
        chains = torch.where(keep, self.chains[rows, :longest], 0)
        return chains, torch.where(keep, self.states[rows, :longest], -100)


class Batches:
    """The batches of one rank: neighbours in length go together, in a new order each epoch."""

    def __init__(self, count, batch, rank, world, seed=0):
        share = count // world
        mine = torch.arange(count)[rank * share:(rank + 1) * share]  #: LINE
        self.groups = mine[:share // batch * batch].view(-1, batch)
        self.g = torch.Generator().manual_seed(seed)

    def __iter__(self):
        while True:
            for k in torch.randperm(len(self.groups), generator=self.g).tolist():
                yield self.groups[k]


class Structure(nn.Module):
    def __init__(self, kinds=21, width=128, states=3, depth=5):
        super().__init__()
        self.kinds = nn.Embedding(kinds, width)
        self.body = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2) for _ in range(depth))
        self.out = nn.Conv1d(width, states, 1)

    def forward(self, chains):
        h = self.kinds(chains).transpose(1, 2)
        for layer in self.body:
            h = h + torch.relu(layer(h))
        return self.out(h)
