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
        self.weight = np.ones(size)
        self.random = np.random.default_rng(0)

    def draw(self, count):
        edges = np.cumsum(self.weight)
        picked = np.searchsorted(edges, self.random.random(count) * edges[-1], side="right")
        at = torch.from_numpy(picked)
        return picked, self.view[at], self.move[at], self.reward[at], self.after[at]

    def revise(self, picked, errors):
        self.weight[picked] = (errors.double().numpy() + 1e-3) ** POWER
