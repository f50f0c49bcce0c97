import torch
from torch import nn
from torch.nn import functional as F

TAGS, WORDS = 280, 5000


def sentences(count=1200, seed=0):
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(20, 41, (count,), generator=g).tolist()
    data = []
    for n in lengths:
        words = torch.randint(1, WORDS, (n,), generator=g)
        data.append((words, words % TAGS))
    return data


def collate(batch):
    lengths = [len(words) for words, _ in batch]
    words = nn.utils.rnn.pad_sequence([words for words, _ in batch], batch_first=True)
    tags = nn.utils.rnn.pad_sequence([tags for _, tags in batch], batch_first=True, padding_value=-1)
    return words, tags, lengths


class Supertagger(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=0)
        self.rnn = nn.GRU(width, width // 2, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, TAGS))

    def forward(self, words):
        return self.out(self.rnn(self.words(words))[0])


def tagging_loss(scores, tags, lengths):
    return F.cross_entropy(scores.flatten(0, 1), tags.flatten(), ignore_index=-1, reduction="sum") / sum(lengths)
