import random
from collections import deque, namedtuple

import numpy as np
import torch

Move = namedtuple("Move", "state action reward next_state done")


class Replay:
    def __init__(self, size=4000):
        self.moves = deque(maxlen=size)

    def push(self, *parts):
        self.moves.append(Move(*parts))

    def sample(self, count):
        picked = Move(*zip(*random.sample(self.moves, count)))
        states = torch.tensor(picked.state, dtype=torch.float32)  #: LINE
        after = torch.tensor(picked.next_state, dtype=torch.float32)
        return (states, torch.tensor(picked.action), torch.tensor(picked.reward, dtype=torch.float32), after,
                torch.tensor(picked.done, dtype=torch.float32))


class Maze:
    """A walker on a torus; sees its surroundings as a vector."""

    def __init__(self, seen=128, seed=0):
        self.rng = np.random.default_rng(seed)
        self.map = self.rng.normal(size=(4096, seen)).astype("float32")
        self.place = 0

    def look(self):
        return self.map[self.place]

    def step(self, action):
        self.place = (self.place + (1, -1, 64, -64)[action]) % 4096
        return self.look(), float(self.map[self.place, 0]), bool(self.rng.random() < 0.02)
