"""Sentences of different lengths and how they are put together."""
import random

import torch
from torch.utils.data import Dataset


class Sentences(Dataset):
    def __init__(self, count, vocabulary):
        source = random.Random(11)
        self.sentences = [
            [source.randrange(1, vocabulary) for _ in range(source.randint(160, 300))] for _ in range(count)
        ]

    def __len__(self):
        return len(self.sentences)

    def __getitem__(self, index):
        return self.sentences[index]


def collate(batch):
    longest = max(len(sentence) for sentence in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    for row, sentence in enumerate(batch):
        ids[row, : len(sentence)] = torch.tensor(sentence)
    return ids, (ids != 0).float()
