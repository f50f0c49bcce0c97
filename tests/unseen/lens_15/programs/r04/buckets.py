import random

import torch
from torch.utils.data import BatchSampler, Dataset


class Questions(Dataset):
    def __init__(self, count=1400, vocab=1500, seed=0):
        rng = random.Random(seed)
        self.rows = [[rng.randrange(5, vocab) for _ in range(rng.randint(10, 90))] for _ in range(count)]
        self.labels = [len(row) % 3 for row in self.rows]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index], self.labels[index]


class Buckets(BatchSampler):
    """Batches of texts with nearly the same number of tokens, in random order."""

    def __init__(self, lengths, batch_size, seed=0):
        super().__init__(range(len(lengths)), batch_size, drop_last=True)
        self.rng = random.Random(seed)
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        cut = range(0, len(order) - batch_size + 1, batch_size)
        self.batches = [order[k:k + batch_size] for k in cut]

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.rng.sample(self.batches, len(self.batches)))


def collate(rows):
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in rows])
    mask = (ids != 0).long()
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([label for _, label in rows])}
