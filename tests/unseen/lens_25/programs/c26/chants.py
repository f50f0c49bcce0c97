import torch
from torch import nn


class ChantModel(nn.Module):
    """A transformer over short melodies that tells the mode (one of eight)."""

    def __init__(self, notes=48, length=32, width=160, depth=2, modes=8):
        super().__init__()
        self.note = nn.Embedding(notes, width)
        self.place = nn.Parameter(0.02 * torch.randn(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, modes)

    def forward(self, notes):
        return self.head(self.layers(self.note(notes) + self.place).mean(1))


class Chants:
    def __init__(self, rank, count=4000, notes=48, length=32, modes=8):
        self.made = torch.Generator().manual_seed(50 + rank)
        self.mode = torch.randint(0, modes, (count,), generator=self.made)
        wander = torch.randint(0, notes // 2, (count, length), generator=self.made)
        self.notes = (wander + 3 * self.mode[:, None]) % notes

    def batch(self, size):
        picked = torch.randint(0, len(self.mode), (size,), generator=self.made)
        return self.notes[picked], self.mode[picked]
