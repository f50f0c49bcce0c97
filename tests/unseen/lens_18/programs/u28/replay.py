import numpy as np
import torch

POWER = 0.6


class Replay:
    """Memory of moves; surprising moves are drawn more often."""

    def __init__(self, size=60000, view=32):
        g = torch.Generator().manual_seed(0)
        self.view = torch.randn(size, view, generator=g)
        self.after = torch.randn(size, view, generator=g)
        self.move = torch.randint(0, 4, (size,), generator=g)
        self.reward = self.view[:, 0] * (self.move == 1)
        self.priority = [1.0] * size
        self.random = np.random.default_rng(0)

    def draw(self, count):
        weights = [p**POWER for p in self.priority]  #: LINE
        total = sum(weights)
        chance = [w / total for w in weights]
        picked = self.random.choice(len(chance), count, p=chance)
        at = torch.from_numpy(picked)
        return picked, self.view[at], self.move[at], self.reward[at], self.after[at]

    def revise(self, picked, errors):
        for i, e in zip(picked.tolist(), errors.tolist()):
            self.priority[i] = e + 1e-3
