import torch
from torch.utils.data import Dataset


class Complaints(Dataset):
    """Letters of customers, all cut to the same length, and what they complain of."""

    def __init__(self, count=1500, length=48, words=600, topics=8):
        self.topic = torch.randint(0, topics, (count,))
        common = torch.randint(0, words, (count, length))
        special = self.topic.unsqueeze(1) * (words // topics) + torch.randint(0, words // topics, (count, length))
        self.text = torch.where(torch.rand(count, length) < 0.2, special, common)

    def __len__(self):
        return len(self.topic)

    def __getitem__(self, index):
        return {"input_ids": self.text[index], "labels": self.topic[index]}
