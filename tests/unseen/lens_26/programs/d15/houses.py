import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler


class Houses(Dataset):
    """Houses, and what they were sold for."""

    def __init__(self, count=250_000, facts=32):
        self.facts = torch.randn(count, facts)
        self.price = self.facts[:, :8].abs().sum(1) + 0.3 * torch.randn(count)

    def __len__(self):
        return len(self.facts)

    def __getitems__(self, picked):
        picked = torch.tensor(picked)
        return self.facts[picked], self.price[picked]


def draws(houses, batch):
    """A loader whose passes are one batch long, drawn with replacement."""
    sampler = RandomSampler(houses, replacement=True, num_samples=batch)
    return DataLoader(houses, batch_size=batch, sampler=sampler, collate_fn=lambda got: got)


def pricer(facts=32, width=512):
    return nn.Sequential(
        nn.Linear(facts, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
        nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1), nn.Flatten(0),
    )
