import torch
from torch import nn
from torch.nn import functional as F


class Critic(nn.Module):
    def __init__(self, features=32, actions=6, width=448):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.value, self.gain = nn.Linear(width, 1), nn.Linear(width, actions)

    def forward(self, x):
        h = self.body(x)
        gain = self.gain(h)
        return self.value(h) + gain - gain.mean(1, keepdim=True)


class Arena:
    def __init__(self, envs=64, features=32):
        self.state = torch.randn(envs, features)
        self.direction = torch.randn(6, features)

    def move(self, actions):
        after = 0.9 * self.state + 0.1 * self.direction[actions] + 0.05 * torch.randn_like(self.state)
        reward = after[:, 0] - 0.1 * after[:, 1:4].abs().sum(1)
        done = after[:, 4].abs() > 1.5
        before, self.state = self.state, after
        if done.any():
            self.state = torch.where(done[:, None], torch.randn_like(after), after)
        return before, reward, after, done


class Memory:
    def __init__(self, size=8192, features=32):
        self.size, self.at, self.full = size, 0, False
        self.store = [torch.zeros(size, features), torch.zeros(size, dtype=torch.long), torch.zeros(size),
                      torch.zeros(size, features), torch.zeros(size, dtype=torch.bool)]

    def add(self, *columns):
        count = len(columns[0])
        rows = slice(self.at, self.at + count)
        for store, column in zip(self.store, columns):
            store[rows] = column
        self.at = (self.at + count) % self.size
        self.full = self.full or self.at == 0

    def draw(self, count):
        rows = torch.randint(0, self.size if self.full else self.at, (count,))
        return [store[rows] for store in self.store]
