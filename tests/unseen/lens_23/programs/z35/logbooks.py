import random

import torch
from torch.utils.data import Dataset


class Logbooks(Dataset):
    """Entries of ships' logbooks as numbers of words, cut to what the model can read."""

    def __init__(self, count=1200, vocabulary=900, longest=64):
        chance = random.Random(5)
        self.entries = []
        for _ in range(count):
            length, word, entry = chance.randint(60, 400), chance.randrange(1, vocabulary), []
            for _ in range(min(length, longest)):
                entry.append(word)
                word = 1 + (word * 7 + chance.randrange(4)) % (vocabulary - 1)
            self.entries.append(entry)

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, place):
        return self.entries[place]


def to_fixed(entries, longest=64):
    """All of one length, so that the shapes never change."""
    ids = torch.zeros(len(entries), longest, dtype=torch.long)
    labels = torch.full((len(entries), longest), -100)
    for row, entry in enumerate(entries):
        ids[row, :len(entry)] = labels[row, :len(entry)] = torch.tensor(entry)
    return {"input_ids": ids, "labels": labels}
