import torch
from torch import nn
from torch.nn import functional as F


class Translator(nn.Module):
    def __init__(self, words=1200, width=96, hidden=160):
        super().__init__()
        self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encoder = nn.GRU(width, hidden, num_layers=2, batch_first=True)
        self.decoder = nn.GRU(width, hidden, num_layers=2, batch_first=True)
        self.join = nn.Linear(2 * hidden, hidden)
        self.out = nn.Linear(hidden, words)

    def forward(self, source, target):
        memory, state = self.encoder(self.source(source))
        h, _ = self.decoder(self.target(target), state)
        weight = torch.softmax(h @ memory.transpose(1, 2) / memory.shape[-1] ** 0.5, -1)
        return self.out(torch.tanh(self.join(torch.cat([h, weight @ memory], -1))))


def sentences(count=1500, length=16, words=1200):
    g = torch.Generator().manual_seed(7)
    source = torch.randint(2, words, (count, length), generator=g)
    target = torch.cat([torch.ones(count, 1, dtype=torch.long), (source.flip(1) * 5 + 1) % words], 1)
    return source, target
