import random
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class Move:
    """What a lift saw, did and got."""

    before: np.ndarray
    action: int
    reward: float
    after: np.ndarray


class Replay:
    def __init__(self, capacity):
        self.capacity = capacity
        self.moves = []
        self.at = 0

    def add(self, move):
        if len(self.moves) < self.capacity:
            self.moves.append(move)
        else:
            self.moves[self.at] = move
        self.at = (self.at + 1) % self.capacity

    def sample(self, count):
        picked = random.sample(self.moves, count)
        before = torch.from_numpy(np.stack([m.before for m in picked]))
        after = torch.from_numpy(np.stack([m.after for m in picked]))
        action = torch.tensor([m.action for m in picked])
        reward = torch.tensor([m.reward for m in picked])
        return before, action, reward, after


class Lift:
    """A lift in a tall house: people wait on floors, the lift goes up, down or opens its doors."""

    def __init__(self, floors=40, actions=3):
        self.random = np.random.default_rng(1)
        self.floors, self.actions = floors, actions
        self.seen = self.look()

    def look(self):
        return self.random.random(self.floors, dtype=np.float32)

    def act(self, action):
        before, self.seen = self.seen, self.look()
        return Move(before, action, float(before[action]) - 0.5, self.seen)
