import torch
from torch import nn


def mlp(inputs, outputs, width=320):
    return nn.Sequential(
        nn.Linear(inputs, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


class Agent(nn.Module):
    """A deterministic policy with two critics."""

    def __init__(self, states=24, actions=4):
        super().__init__()
        self.policy = mlp(states, actions)
        self.critics = nn.ModuleList(mlp(states + actions, 1) for _ in range(2))

    def act(self, s):
        return torch.tanh(self.policy(s))

    def values(self, s, a):
        x = torch.cat([s, a], 1)
        return torch.stack([critic(x) for critic in self.critics])
