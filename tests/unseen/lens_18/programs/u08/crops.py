import torch
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    """Few-shot sets of bird calls: a small pool, so an epoch is soon over."""

    def __init__(self, count=96, samples=6000, take=4096, kinds=8):
        g = torch.Generator().manual_seed(0)
        self.kind = torch.randint(0, kinds, (count,), generator=g)
        pitch = 0.05 + 0.03 * self.kind.view(-1, 1)
        self.sound = torch.sin(pitch * torch.arange(samples)) + 0.3 * torch.randn(count, samples, generator=g)
        self.take = take

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, index):
        at = int(torch.randint(0, self.sound.shape[1] - self.take, (1,)))
        return self.sound[index, at : at + self.take] * (0.5 + torch.rand(1)), self.kind[index]


def epochs(data, batch, workers):
    while True:
        loader = DataLoader(data, batch, shuffle=True, drop_last=True, num_workers=workers)  #: LINE
        yield from loader
