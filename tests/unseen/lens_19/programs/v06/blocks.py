import random

import torch
from torch.nn.utils.rnn import pad_sequence


class Blocks(torch.utils.data.Dataset):
    """All protocols end to end, cut to blocks of one length; only the last one is short."""

    def __init__(self, length, words, count=900, seed=0):
        rng = random.Random(seed)
        ids = []
        for _ in range(count):
            ids += [rng.randrange(2, words) for _ in range(rng.randint(40, 200))] + [1]
        self.blocks = torch.tensor(ids).split(length)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, index):
        return self.blocks[index]


def collate(rows):
    ids = pad_sequence(rows, batch_first=True, padding_value=0)
    return {"input_ids": ids, "labels": ids.masked_fill(ids == 0, -100)}
