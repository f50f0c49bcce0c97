import torch
from torch.utils.data import Dataset


class Letters(Dataset):
    """Pieces of old letters as tokens, and the decade each was written in."""

    def __init__(self, count=1200, length=48, words=900, decades=6):
        self.decade = torch.randint(0, decades, (count,))
        usual = torch.randint(5, words, (decades, 40))
        places = torch.randint(0, 40, (count, length))
        self.tokens = usual[self.decade[:, None], places]
        strange = torch.rand(count, length) < 0.5
        self.tokens[strange] = torch.randint(5, words, (int(strange.sum()),))

    def __len__(self):
        return len(self.decade)

    def __getitem__(self, place):
        return {"input_ids": self.tokens[place], "labels": self.decade[place]}
