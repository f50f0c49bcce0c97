import torch
from torch.utils.data import Dataset


class Tickets(Dataset):
    """What people wrote to a help desk, as tokens, and who has to answer it."""

    def __init__(self, count=2400, length=40, words=1000, desks=7):
        self.desk = torch.randint(0, desks, (count,))
        usual = torch.randint(5, words, (desks, 30))
        self.tokens = usual[self.desk[:, None], torch.randint(0, 30, (count, length))]
        other = torch.rand(count, length) < 0.6
        self.tokens[other] = torch.randint(5, words, (int(other.sum()),))

    def __len__(self):
        return len(self.desk)

    def __getitem__(self, place):
        return {"input_ids": self.tokens[place], "labels": self.desk[place]}
