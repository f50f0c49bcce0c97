import torch
from torch import nn


class CharModel(nn.Module):
    def __init__(self, vocabulary=6000, width=160):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


def text(count, length, vocabulary, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(vocabulary, (count, length + 1), generator=g)
