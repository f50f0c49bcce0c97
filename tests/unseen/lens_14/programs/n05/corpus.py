import torch
from torch.utils.data import Dataset


class Tickets(Dataset):
    """Support tickets as token ids, one of nine queues as the label."""

    def __init__(self, count=600, length=64, vocab=8000, queues=9, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(queues, (count,), generator=g)
        self.ids = torch.randint(5, vocab, (count, length), generator=g)
        self.ids[:, 0] = 1
        self.ids[:, 5] = 20 + self.labels

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones_like(self.ids[i]), "labels": self.labels[i]}
