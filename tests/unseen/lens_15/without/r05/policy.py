import torch
from torch import nn


class ActorCritic(nn.Module):
    def __init__(self, obs=48, actions=6, width=160):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(obs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.actor = nn.Linear(width, actions)
        self.critic = nn.Linear(width, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.actor(h), self.critic(h).squeeze(-1)
