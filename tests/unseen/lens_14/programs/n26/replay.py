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
        self.priorities = deque(maxlen=capacity)
        self.alpha, self.capacity, self.size = alpha, capacity, 0

    def extend(self, states, actions, rewards, next_states, dones):
        n = len(actions)
        part = slice(self.size, self.size + n)
        self.states[part], self.next_states[part] = states, next_states
        self.actions[part], self.rewards[part], self.dones[part] = actions, rewards, dones
        self.priorities.extend([1.0] * n)
        self.size += n

    def sample(self, count, beta=0.4):
        scaled = np.array(self.priorities) ** self.alpha  #: LINE
        probs = scaled / scaled.sum()
        picks = np.random.choice(self.size, count, p=probs)
        weights = (self.size * probs[picks]) ** -beta
        weights = torch.from_numpy((weights / weights.max()).astype(np.float32))
        fields = (self.states, self.actions, self.rewards, self.next_states, self.dones)
        return picks, weights, [torch.from_numpy(field[picks]) for field in fields]

    def update(self, picks, errors):
        for i, error in zip(picks, errors):
            self.priorities[i] = error + 1e-5
