import torch
from torch.utils.data import DataLoader, Dataset


class Gait(Dataset):
    """Steps of walkers from a wrist sensor, mirrored and tilted at random."""

    def __init__(self, count=2400, frames=96):
        g = torch.Generator().manual_seed(2)
        self.walk = torch.randn(count, 6, frames, generator=g).cumsum(2) / 5
        self.who = torch.randint(0, 10, (count,), generator=g)

    def __len__(self):
        return len(self.who)

    def __getitem__(self, index):
        walk = self.walk[index]
        if torch.rand(()) < 0.5:
            walk = -walk
        return walk + 0.1 * torch.rand(6, 1), self.who[index]


def walks(batch):
    loader = DataLoader(
        Gait(), batch, shuffle=True, drop_last=True, num_workers=1, persistent_workers=True, prefetch_factor=4,
    )
    while True:
        yield from loader
