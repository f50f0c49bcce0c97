import torch
from torch.utils.data import Dataset

WIDTH, EMPTY, END = 96, 0, 1


class Minutes(Dataset):
    """Minutes of meetings, put one behind the other into rows of 96 words; a row ends where the next would not fit."""

    def __init__(self, count=9000, words=2400):
        made = torch.Generator().manual_seed(71)
        self.rows, row = [], []
        for length in torch.randint(2, 9, (count,), generator=made).tolist():
            if len(row) + length + 1 > WIDTH:
                self.rows.append(torch.tensor(row))
                row = []
            row += torch.randint(2, words, (length,), generator=made).tolist() + [END]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def collate(rows):
    words = torch.full((len(rows), WIDTH), EMPTY)
    for space, row in zip(words, rows):
        space[: len(row)] = row
    there = words != EMPTY
    return {"input_ids": words, "attention_mask": there.long(), "labels": words.masked_fill(~there, -100)}
