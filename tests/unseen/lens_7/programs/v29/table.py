import random

import torch


class Table:
    """A table as the csv reader gave it: a list of rows."""

    def __init__(self, rows, cols):
        rng = random.Random(0)
        self.rows = [[rng.random() for _ in range(cols)] for _ in range(rows)]
        self.gold = [rng.randint(0, 1) for _ in range(rows)]
        self.rng = rng

    def batch(self, n):
        pick = [self.rng.randrange(len(self.rows)) for _ in range(n)]
        x = torch.tensor([self.rows[i] for i in pick])  #: LINE
        y = torch.tensor([self.gold[i] for i in pick], dtype=torch.float32)
        return x, y
