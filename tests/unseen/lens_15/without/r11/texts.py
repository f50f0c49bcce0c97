import torch
from torch.utils.data import Dataset


class Reviews(Dataset):
    def __init__(self, count=1600, vocab=2000, seed=0):
        g = torch.Generator().manual_seed(seed)
        lengths = torch.randint(50, 101, (count,), generator=g).tolist()
        self.labels = torch.randint(2, (count,), generator=g).tolist()
        self.texts = [
            torch.randint(10 + 300 * y, vocab, (n,), generator=g).tolist() for n, y in zip(lengths, self.labels)
        ]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return {"input_ids": self.texts[index], "label": self.labels[index]}
