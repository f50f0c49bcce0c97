"""The replay memory of an agent."""
import random
from collections import deque, namedtuple

import torch

Transition = namedtuple("Transition", "state action reward next_state")


class ReplayMemory:
    def __init__(self, capacity, width):
        self.random = random.Random(8)
        self.transitions = deque(maxlen=capacity)
        self.width = width

    def observe(self):
        return torch.tensor([self.random.random() for _ in range(self.width)])

    def fill(self, count):
        for _ in range(count):
            self.push(self.observe(), self.random.randrange(4), self.random.random(), self.observe())

    def push(self, *values):
        self.transitions.append(Transition(*values))

    def sample(self, count):
        return self.random.sample(self.transitions, count)
