import numpy as np
import torch


class Friends:
    """A graph of who wrote to whom, and how often."""

    def __init__(self, people=6000, ties=900_000, seed=3):
        self.rng = np.random.default_rng(seed)
        self.people = people
        self.source = self.rng.integers(0, people, ties)
        near = self.rng.normal(0, 30, ties).astype(np.int64)
        self.target = (self.source + near) % people
        letters = self.rng.pareto(1.5, ties) + 1
        self.until = (letters / letters.sum()).cumsum()

    def ties(self, batch):
        """Ties, more often where there are more letters."""
        picked = self.until.searchsorted(self.rng.random(batch) * self.until[-1], side="right")
        return torch.from_numpy(self.source[picked]), torch.from_numpy(self.target[picked])

    def strangers(self, batch, count):
        return torch.from_numpy(self.rng.integers(0, self.people, (batch, count)))
