import torch


class Tickets(torch.utils.data.Dataset):
    """Tickets of a help desk, each for one of eight teams."""

    def __init__(self, count=1200, length=32, words=4000):
        g = torch.Generator().manual_seed(0)
        self.team = torch.randint(0, 8, (count,), generator=g)
        self.words = torch.randint(100, words, (count, length), generator=g)
        self.words[:, 2:5] = 10 + self.team.unsqueeze(1)

    def __len__(self):
        return len(self.team)

    def __getitem__(self, index):
        return {"input_ids": self.words[index], "labels": self.team[index]}
