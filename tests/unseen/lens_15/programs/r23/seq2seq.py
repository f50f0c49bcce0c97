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
        self.cell = nn.GRUCell(dim + width, width)
        self.out = nn.Linear(width, vocab)

    def forward(self, source, target):
        memory, last = self.encoder(self.embed(source))
        state, keys = last[0], self.keys(memory)
        words, states = self.embed(target), []
        for t in range(words.shape[1]):
            context = self.attention(state, memory, keys)
            state = self.cell(torch.cat([words[:, t], context], 1), state)
            states.append(state)
        return self.out(torch.stack(states, 1))
