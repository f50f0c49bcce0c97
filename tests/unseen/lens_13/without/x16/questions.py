import random

import torch


def questions(count=900, words=2500, seed=1):
    rng = random.Random(seed)
    return [{"input_ids": [rng.randrange(4, words) for _ in range(rng.randint(20, 44))]} for _ in range(count)]


class Pad:
    def __init__(self, pad=0):
        self.pad = pad

    def __call__(self, rows):
        ids = torch.tensor([r["input_ids"] for r in rows])
        return {"input_ids": ids, "labels": ids}
