"""Utterances as a feature extractor leaves them, and the collator that pads them."""
import random

import torch
from torch.utils.data import Dataset


class Utterances(Dataset):
    def __init__(self, count=256, seed=0):
        rng = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(count):
            wave = torch.randn(rng.randrange(4500, 7000), generator=generator)
            self.items.append({"input_values": wave.tolist(), "labels": rng.randrange(8)})

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class PadCollator:
    def __call__(self, features):
        longest = max(len(f["input_values"]) for f in features)
        values = [f["input_values"] + [0.0] * (longest - len(f["input_values"])) for f in features]
        input_values = torch.tensor(values)
        return {"input_values": input_values, "labels": torch.tensor([f["labels"] for f in features])}
