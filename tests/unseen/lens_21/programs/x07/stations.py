import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler

NAMES = ("wind", "gusts", "heat", "dew", "rain", "snow", "cloud", "sun", "pressure", "fog")


class Stations(Dataset):
    """Yesterday at a weather station and what is measured there today. Takes a list of places, gives a batch."""

    def __init__(self, count=40000, features=160):
        self.before = torch.randn(count, features)
        self.after = torch.tanh(self.before @ torch.randn(features, len(NAMES)) / features ** 0.5)

    def __len__(self):
        return len(self.before)

    def __getitem__(self, picked):
        return self.before[picked], self.after[picked]


def loader(batch, rank, world):
    torch.manual_seed(7)
    stations = Stations()
    part = DistributedSampler(stations, world, rank)
    return DataLoader(stations, batch_size=None, sampler=BatchSampler(part, batch, drop_last=True))
