import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.score = nn.Linear(width, 1)

    def forward(self, state, memory, keys):
        weights = self.score(torch.tanh(self.query(state)[:, None] + keys)).softmax(1)
        return (weights * memory).sum(1)


class Seq2Seq(nn.Module):
    def __init__(self, vocab=600, dim=128, width=192):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.encoder = nn.GRU(dim, width, batch_first=True)
        self.keys = nn.Linear(width, width)
        self.attention = Attention(width)
        self.decoder = nn.GRU(dim, width, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, source, target):
        memory, last = self.encoder(self.embed(source))
        states, _ = self.decoder(self.embed(target), last)
        return self.out(states)
