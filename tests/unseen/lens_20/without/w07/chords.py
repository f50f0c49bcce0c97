import torch
from torch import nn
from torch.nn import functional as F


class Lookup(nn.Module):
    """A vector for each chord."""

    def __init__(self, chords, width):
        super().__init__()
        self.chords = chords
        self.table = nn.Parameter(0.02 * torch.randn(chords, width))

    def forward(self, x):
        return F.embedding(x, self.table)


class Harmony(nn.Module):
    """Mood of a piece, by its chords."""

    def __init__(self, chords=900, width=96, moods=8):
        super().__init__()
        self.lookup = Lookup(chords, width)
        self.memory = nn.GRU(width, 176, batch_first=True)
        self.out = nn.Linear(176, moods)

    def forward(self, x):
        x, _ = self.memory(self.lookup(x))
        return self.out(x[:, -1])


def pieces(count=1500, length=32, chords=900, moods=8):
    mood = torch.randint(0, moods, (count,))
    return (torch.randint(0, chords // 2, (count, length)) * (1 + mood.unsqueeze(1) % 2)), mood
