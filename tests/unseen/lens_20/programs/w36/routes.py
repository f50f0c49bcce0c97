import torch
from torch import nn


class Flights:
    """Flights of birds, from few to many fixes each. Neighbours in length go to different ranks."""

    def __init__(self, rank, ranks, batch, count=3200):
        generator = torch.Generator().manual_seed(0)
        lengths = torch.randint(20, 44, (count,), generator=generator).sort().values
        batches = list(lengths.split(batch))[rank::ranks]
        self.rows = []
        for lengths in batches:
            fixes = torch.randn(batch, int(lengths.max()), 4, generator=generator)
            fixes *= (torch.arange(fixes.shape[1]) < lengths.unsqueeze(1)).unsqueeze(2)
            self.rows.append((fixes, fixes[:, :8, 0].mean(1)))
        self.order = torch.randperm(len(self.rows), generator=torch.Generator().manual_seed(1)).tolist()

    def __getitem__(self, step):
        return self.rows[self.order[step % len(self.order)]]


class Drift(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.memory = nn.GRU(4, width, 2, batch_first=True)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        x, _ = self.memory(x)
        return self.out(x.mean(1)).squeeze(1)
