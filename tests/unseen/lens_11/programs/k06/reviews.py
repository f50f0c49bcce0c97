"""Reviews as bags of hashed character n-grams."""
import os
import random
import zlib

import numpy as np
import torch
from torch.utils.data import Dataset

BUCKETS = 4096
SYLLABLES = ["ba", "ko", "ri", "su", "te", "lo", "ma", "ni", "po", "ga", "shi", "er", "and", "ing", "the"]


def write_reviews(folder, count):
    rng = random.Random(5)
    with open(os.path.join(folder, "reviews.tsv"), "w") as f:
        for _ in range(count):
            words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))) for _ in range(105)]
            f.write(f"{rng.randrange(5)}\t{' '.join(words)}\n")


def hashed(text):
    bag = np.zeros(BUCKETS, dtype=np.float32)
    raw = text.encode()
    for n in (3, 4, 5):
        for i in range(len(raw) - n + 1):
            bag[zlib.crc32(raw[i:i + n]) % BUCKETS] += 1.0
    return bag / np.sqrt((bag ** 2).sum())


class Reviews(Dataset):
    def __init__(self, folder):
        with open(os.path.join(folder, "reviews.tsv")) as f:
            self.rows = [line.rstrip("\n").split("\t") for line in f]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        stars, text = self.rows[i]
        return torch.from_numpy(hashed(text)), int(stars)
