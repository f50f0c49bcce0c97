import torch
from torch.utils.data import Dataset


class Melodies(Dataset):
    """Melodies as rows of notes: small steps up and down a scale."""

    def __init__(self, count=240, length=32, notes=90):
        steps = torch.randint(-3, 4, (count, length))
        self.rows = (notes // 2 + steps.cumsum(1)).remainder(notes)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}
