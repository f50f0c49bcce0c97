import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, words=4000, width=96, tags=9):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.body = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, tags)

    def forward(self, tokens):
        return self.out(self.body(self.words(tokens))[0])


class Sentences:
    """Sentences of one length; a part of the words carries a tag, the rest is ignored."""

    def __init__(self, seed, words=4000, length=32, tags=9):
        self.g = torch.Generator().manual_seed(seed)
        self.words, self.length, self.tags = words, length, tags

    def take(self, count):
        tokens = torch.randint(0, self.words, (count, self.length), generator=self.g)
        known = torch.rand(count, self.length, generator=self.g) < 0.4
        return tokens, torch.where(known, tokens % self.tags, -100)
