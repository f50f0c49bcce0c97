import torch
from torch.utils.data import Dataset

PAD = 0


class Reviews(Dataset):
    """Reviews of hotels, split into pieces of words, and the stars given."""

    def __init__(self, count=4000, pieces=4000, stars=5):
        made = torch.Generator().manual_seed(12)
        self.stars = torch.randint(0, stars, (count,), generator=made).tolist()
        lengths = torch.randint(14, 44, (count,), generator=made).tolist()
        self.pieces = [
            (torch.randint(1, pieces // 2, (length,), generator=made) + 300 * star)
            for length, star in zip(lengths, self.stars)
        ]

    def __len__(self):
        return len(self.stars)

    def __getitem__(self, index):
        return {"input_ids": self.pieces[index], "labels": self.stars[index]}


class Collate:
    """One batch of reviews."""

    def __init__(self, max_length=64):
        self.max_length = max_length

    def __call__(self, items):
        length = min(self.max_length, max(len(item["input_ids"]) for item in items))
        ids = torch.full((len(items), length), PAD)
        for row, item in zip(ids, items):
            row[: len(item["input_ids"])] = item["input_ids"]
        return {
            "input_ids": ids,
            "attention_mask": (ids != PAD).long(),
            "labels": torch.tensor([item["labels"] for item in items]),
        }
