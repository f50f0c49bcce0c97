import torch
from torch import nn


class Sagas:
    """Tales of different length, in batches of tales of about the same length, a share of them for each rank."""

    def __init__(self, rank, ranks, batch, count=3840, words=2000):
        generator = torch.Generator().manual_seed(0)
        lengths = torch.randint(20, 73, (count,), generator=generator).sort().values
        self.words, self.batch = words, batch
        self.texts = [self.made(lengths, rank) for lengths in lengths.split(batch)[rank::ranks]]

    def made(self, lengths, rank):
        text = torch.zeros(self.batch, int(lengths.max()), dtype=torch.long)
        for row, length in zip(text, lengths.tolist()):
            row[:length] = torch.arange(rank, rank + 7 * length, 7) % (self.words - 1) + 1
        return text, lengths % 3

    def shuffled(self, seed):
        order = torch.randperm(len(self.texts), generator=torch.Generator().manual_seed(seed))
        return [self.texts[index] for index in order]


class Teller(nn.Module):
    """Where a tale is from."""

    def __init__(self, words=2000, width=96, places=3):
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.net = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width),
        )
        self.out = nn.Linear(width, places)

    def forward(self, x):
        known = (x > 0).unsqueeze(2)
        return self.out((self.net(self.words(x)) * known).sum(1) / known.sum(1))
