from collections import deque

import numpy as np
import torch


class Lessons:
    """Sums of 20 grades of difficulty; grades in which the loss still falls are drawn more often."""

    def __init__(self, grades=20, memory=16, seed=0):
        self.losses = [deque([3.0, 2.0], maxlen=memory) for _ in range(grades)]
        self.random = np.random.default_rng(seed)

    def odds(self):
        falls = np.array([abs(losses[0] - losses[-1]) + 0.05 for losses in self.losses])
        return falls / falls.sum()

    def draw(self, count):
        return torch.from_numpy(self.random.choice(len(self.losses), count, p=self.odds()))

    def tell(self, grades, losses):
        for grade in grades.unique().tolist():
            self.losses[grade].append(losses[grades == grade].mean().item())


def sums(grades, length=24):
    """Rows of numbers up to the grade, and what they come to."""
    numbers = (torch.rand(len(grades), length) * (grades[:, None] + 1)).floor()
    return numbers.long(), numbers.sum(1) / (length * 10)
