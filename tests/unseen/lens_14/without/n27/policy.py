import torch
from torch import nn
from torch.distributions import Normal


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(self.norm(x))))


class ActorCritic(nn.Module):
    def __init__(self, observation=48, actions=8, width=352, depth=2):
        super().__init__()
        self.first = nn.Linear(observation, width)
        self.body = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.mean, self.value = nn.Linear(width, actions), nn.Linear(width, 1)
        self.log_std = nn.Parameter(torch.full((actions,), -0.5))

    def forward(self, x):
        h = self.body(torch.relu(self.first(x)))
        return Normal(self.mean(h), self.log_std.exp()), self.value(h).squeeze(1)
