import torch
from torch import nn

LETTERS = " abcdefghijklmnopqrstuvwxyz.,-'"


class Sheets:
    """Scanned lines of an old typewriter: each letter a cell of 12 by 8 dots, blurred and noisy."""

    def __init__(self, length=44):
        self.type = (torch.rand(len(LETTERS), 96) < 0.35).float()
        self.length = length

    def batch(self, size):
        text = torch.randint(len(LETTERS), (size, self.length))
        ink = self.type[text]
        smear = 0.4 * ink.roll(1, dims=1) + 0.5 * torch.randn_like(ink)
        return ink + smear, text


class Reader(nn.Module):
    def __init__(self, width=96, layers=1):
        super().__init__()
        self.cell = nn.Linear(96, width)
        self.line = nn.GRU(width, width, layers, batch_first=True, bidirectional=True)
        self.letter = nn.Linear(2 * width, len(LETTERS))

    def forward(self, cells):
        return self.letter(self.line(torch.relu(self.cell(cells)))[0])
