import torch
from torch.utils.data import Dataset


class Verses(Dataset):
    """Verses as tokens, and the metre of each."""

    def __init__(self, count=2000, length=32, words=700, metres=5):
        self.metre = torch.randint(0, metres, (count,))
        beat = torch.randint(0, 2, (metres, 8))[self.metre].repeat(1, length // 8)
        self.tokens = 5 + (torch.randint(0, words // 2 - 5, (count, length)) * 2 + beat)

    def __len__(self):
        return len(self.metre)

    def __getitem__(self, place):
        return {"input_ids": self.tokens[place], "labels": self.metre[place]}
