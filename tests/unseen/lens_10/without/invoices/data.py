import torch
from torch.utils.data import Dataset

FIELDS = 7


class Invoices(Dataset):
    """Token sequences with a label for each token: which field of the invoice it belongs to."""

    def __init__(self, count, length=64, vocab=3000, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, vocab, (count, length), generator=g)
        self.labels = (self.ids // 37 + torch.arange(length) // 16) % FIELDS

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones_like(self.ids[i]), "labels": self.labels[i]}
