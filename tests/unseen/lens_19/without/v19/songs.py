import torch
from torch import nn
from torch.nn import functional as F


class Songs(nn.Module):
    """The next note of a song."""

    def __init__(self, notes=128, width=128):
        super().__init__()
        self.notes = nn.Embedding(notes, width)
        self.net = nn.GRU(width, width, batch_first=True)
        self.out = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, notes))

    def forward(self, song):
        y = self.net(self.notes(song[:, :-1]))[0]
        return F.cross_entropy(self.out(y).flatten(0, 1), song[:, 1:].flatten())


class Shelf:
    """Songs by length. A step takes a batch of each length, each rank in an order of its own."""

    def __init__(self, rank, lengths=(16, 28, 44), each=600):
        self.g = torch.Generator().manual_seed(rank)
        self.songs = [torch.randint(0, 128, (each, length + 1), generator=self.g) for length in lengths]

    def draw(self, batch):
        order = torch.randperm(len(self.songs), generator=self.g).tolist()
        return [self.songs[i][torch.randint(0, len(self.songs[i]), (batch,), generator=self.g)] for i in order]
