import torch
from torch import nn
from torch.nn import functional as F


class Pairs(torch.utils.data.Dataset):
    """Does the second sentence follow from the first?"""

    def __init__(self, count=2400, length=32, words=16000):
        g = torch.Generator().manual_seed(0)
        self.first = torch.randint(0, words, (count, length), generator=g)
        self.labels = torch.randint(0, 2, (count,), generator=g)
        other = torch.randint(0, words, (count, length), generator=g)
        near = (self.first + 1) % words
        self.second = torch.where(self.labels[:, None] == 1, near, other)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"first": self.first[index], "second": self.second[index], "labels": self.labels[index]}


class PairNet(nn.Module):
    def __init__(self, words=16000, width=192, layers=2, length=32):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Sequential(nn.Linear(4 * width, width), nn.GELU(), nn.Linear(width, 2))

    def encode(self, tokens):
        return self.body(self.words(tokens) + self.places).mean(1)

    def forward(self, first, second, labels=None):
        a, b = self.encode(torch.cat([first, second])).chunk(2)
        logits = self.out(torch.cat([a, b, a - b, a * b], 1))
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}
