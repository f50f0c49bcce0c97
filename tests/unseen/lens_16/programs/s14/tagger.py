import torch
from torch import nn


class BiLSTMTagger(nn.Module):
    def __init__(self, words=4000, tags=17, width=96, hidden=96):
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.rnn = nn.LSTM(width, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * hidden, tags)

    def forward(self, tokens):
        h, _ = self.rnn(self.words(tokens))
        return self.out(h)


def corpus(sentences=2000, longest=40, words=4000, tags=17, seed=0):
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(longest // 2, longest + 1, (sentences,), generator=g)
    tokens = torch.randint(1, words, (sentences, longest), generator=g)
    gold = (tokens * 7 + tokens.roll(1, 1)) % tags
    outside = torch.arange(longest)[None] >= lengths[:, None]
    return tokens.masked_fill(outside, 0), gold.masked_fill(outside, -100), lengths
