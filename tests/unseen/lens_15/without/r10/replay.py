import random
from collections import deque, namedtuple

import numpy as np
import torch

Transition = namedtuple("Transition", "state action reward next_state done")


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *items):
        self.memory.append(Transition(*items))

    def __len__(self):
        return len(self.memory)

    def sample(self, count):
        batch = Transition(*zip(*random.sample(self.memory, count)))
        states = torch.from_numpy(np.stack(batch.state))
        next_states = torch.from_numpy(np.stack(batch.next_state))
        actions = torch.tensor(batch.action)
        rewards = torch.tensor(batch.reward, dtype=torch.float32)
        return states, actions, rewards, next_states, torch.tensor(batch.done)


class Catch:
    """A ball falls in a field of 28 by 28, a paddle below is to be there."""

    def __init__(self, size=28, seed=0):
        self.size, self.rng = size, np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.ball, self.row, self.paddle = int(self.rng.integers(self.size)), 0, self.size // 2
        return self.draw()

    def draw(self):
        field = np.zeros((1, self.size, self.size), dtype=np.float32)
        field[0, self.row, self.ball] = 1
        field[0, -1, max(self.paddle - 1, 0):self.paddle + 2] = 1
        return field

    def step(self, action):
        self.paddle = min(max(self.paddle + action - 1, 0), self.size - 1)
        self.row += 1
        done = self.row == self.size - 1
        reward = float(abs(self.ball - self.paddle) <= 1) if done else 0.0
        return self.draw(), reward, done
