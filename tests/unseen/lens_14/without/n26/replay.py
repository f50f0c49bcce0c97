from collections import deque

import numpy as np
import torch


class PrioritizedReplay:
    """Proportional prioritized replay (alpha, beta as in the paper)."""

    def __init__(self, capacity, state_size, alpha=0.6):
        self.states = np.zeros((capacity, state_size), dtype=np.float32)
        self.next_states = np.zeros((capacity, state_size), dtype=np.float32)
        self.actions = np.zeros(capacity, dtype=np.int64)
        self.rewards = np.zeros(capacity, dtype=np.float32)
        self.dones = np.zeros(capacity, dtype=np.float32)
        self.scaled = np.zeros(capacity)
        self.alpha, self.capacity, self.size = alpha, capacity, 0

    def extend(self, states, actions, rewards, next_states, dones):
        n = len(actions)
        part = slice(self.size, self.size + n)
        self.states[part], self.next_states[part] = states, next_states
        self.actions[part], self.rewards[part], self.dones[part] = actions, rewards, dones
        self.scaled[part] = 1.0
        self.size += n

    def sample(self, count, beta=0.4):
        ladder = np.cumsum(self.scaled[:self.size])
        picks = np.searchsorted(ladder, np.random.uniform(0, ladder[-1], count)).clip(max=self.size - 1)
        weights = (self.size * self.scaled[picks] / ladder[-1]) ** -beta
        weights = torch.from_numpy((weights / weights.max()).astype(np.float32))
        fields = (self.states, self.actions, self.rewards, self.next_states, self.dones)
        return picks, weights, [torch.from_numpy(field[picks]) for field in fields]

    def update(self, picks, errors):
        self.scaled[picks] = (errors + 1e-5) ** self.alpha
