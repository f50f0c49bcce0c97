import torch
from torch.utils.data import Dataset

LONGEST, PAD = 96, 0


class Reviews(Dataset):
    """Reviews of hotels as word numbers (1 to 2999), most of them short, and the stars."""

    def __init__(self, count=1200, stars=5):
        made = torch.Generator().manual_seed(61)
        lengths = (24 + 34 * torch.rand(count, generator=made)).long().clamp(max=LONGEST)
        self.stars = torch.randint(0, stars, (count,), generator=made)
        self.words = [torch.randint(10, 3000, (length,), generator=made) for length in lengths.tolist()]
        for words, star in zip(self.words, self.stars.tolist()):
            words[::6] = 1 + star

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        return self.words[index], self.stars[index]


def collate(items):
    width = max(len(told) for told, _ in items)
    words = torch.full((len(items), width), PAD)
    for row, (told, _) in zip(words, items):
        row[: len(told)] = told
    return {"input_ids": words, "attention_mask": (words != PAD).long(), "labels": torch.stack([star for _, star in items])}
