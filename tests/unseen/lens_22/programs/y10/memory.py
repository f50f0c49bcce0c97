import numpy as np
import torch


class Memory:
    """What was lived through; that which surprised most is drawn most often."""

    def __init__(self, size, sight, alpha=0.6, seed=0):
        self.seen, self.after = torch.zeros(size, sight), torch.zeros(size, sight)
        self.move, self.gain = torch.zeros(size, dtype=torch.long), torch.zeros(size)
        self.priorities = [0.0] * size
        self.size, self.at, self.full, self.alpha = size, 0, 0, alpha
        self.random = np.random.default_rng(seed)

    def push(self, seen, move, gain, after):
        for row in range(len(seen)):
            at = self.at
            self.seen[at], self.after[at], self.move[at], self.gain[at] = seen[row], after[row], move[row], gain[row]
            self.priorities[at] = 1.0
            self.at, self.full = (at + 1) % self.size, min(self.full + 1, self.size)

    def fill(self, seen, move, gain, after):
        """Takes over the runs of an earlier driver."""
        count = len(seen)
        self.seen[:count], self.after[:count], self.move[:count], self.gain[:count] = seen, after, move, gain
        self.priorities[:count] = [1.0] * count
        self.at, self.full = count % self.size, count

    def sample(self, count):
        weights = np.array(self.priorities[: self.full])  #: LINE
        odds = weights / weights.sum()
        picked = self.random.choice(self.full, count, p=odds)
        pull = torch.from_numpy((self.full * odds[picked]) ** -0.4).float()
        return picked, pull / pull.max(), self.seen[picked], self.move[picked], self.gain[picked], self.after[picked]

    def surprised(self, picked, errors):
        for place, error in zip(picked.tolist(), errors.tolist()):
            self.priorities[place] = (abs(error) + 1e-3) ** self.alpha
