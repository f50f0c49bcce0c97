import torch
from torch import nn


class Waves(nn.Module):
    def __init__(self, buoys=10, width=160):
        super().__init__()
        self.rnn = nn.LSTM(buoys, width, num_layers=2, batch_first=True)
        self.out = nn.Linear(width, buoys)

    def forward(self, x, state):
        h, state = self.rnn(x, state)
        return self.out(h), state


def sequences(count=16, length=321, seed=4):
    g = torch.Generator().manual_seed(seed)
    s = torch.sin(torch.arange(length) * 0.3 + 6.28 * torch.rand(count, 10, 1, generator=g)) + 0.1 * torch.randn(count, 10, length, generator=g)
    s = s.transpose(1, 2)
    return s[:, :-1], s[:, 1:]
