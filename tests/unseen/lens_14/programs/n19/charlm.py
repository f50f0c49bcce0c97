import torch
from torch import nn


class CharLM(nn.Module):
    def __init__(self, vocab, width=224):
        super().__init__()
        self.chars = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, width, num_layers=1, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, ids):
        return self.out(self.lstm(self.chars(ids))[0])


def texts(count=1800, length=49, vocab=300, seed=0):
    g = torch.Generator().manual_seed(seed)
    steps = torch.randint(1, 4, (count, length), generator=g).cumsum(1)
    return (steps + torch.randint(vocab, (count, 1), generator=g)) % vocab
