import random

import torch
from torch.utils.data import Dataset


class Reviews(Dataset):
    def __init__(self, count=1200, words=3000, seed=4):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(count):
            ids = [rng.randrange(5, words) for _ in range(rng.randint(18, 68))]
            self.rows.append({"input_ids": ids, "label": ids[0] % 2})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows, max_length=88):
    length = max(len(r["input_ids"]) for r in rows)
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for k, r in enumerate(rows):
        n = len(r["input_ids"])
        ids[k, :n] = torch.tensor(r["input_ids"])
        mask[k, :n] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([r["label"] for r in rows])}
