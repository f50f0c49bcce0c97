import torch
from torch import nn
from torch.distributions import Categorical


class Agent(nn.Module):
    def __init__(self, observation=32, actions=6, width=256):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(observation, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.actor, self.value = nn.Linear(width, actions), nn.Linear(width, 1)

    def forward(self, x):
        h = self.body(x)
        return Categorical(logits=self.actor(h)), self.value(h).squeeze(-1)


class Chains:
    def __init__(self, count, g, observation=32):
        self.g = g
        self.state = torch.randn(count, observation, generator=g)
        self.push = torch.randn(6, observation, generator=g) * 0.1

    def step(self, action):
        self.state = 0.95 * self.state + self.push[action] + 0.05 * torch.randn(self.state.shape, generator=self.g)
        return self.state, -self.state.abs().mean(1)


@torch.no_grad()
def rollout(env, agent, length, gamma=0.98, lam=0.95):
    rows = []
    for _ in range(length):
        state = env.state
        policy, value = agent(state)
        action = policy.sample()
        _, reward = env.step(action)
        rows.append((state, action, policy.log_prob(action), value, reward))
    states, actions, logs, values, rewards = (torch.stack(column) for column in zip(*rows))
    following = torch.cat([values[1:], agent(env.state)[1][None]])
    delta, gain, last = rewards + gamma * following - values, torch.zeros_like(values), 0.0
    for t in reversed(range(length)):
        last = delta[t] + gamma * lam * last
        gain[t] = last
    return [x.flatten(0, 1) for x in (states, actions, logs, gain, gain + values)]
