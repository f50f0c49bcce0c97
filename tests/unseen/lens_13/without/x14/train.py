import statistics
import time

import torch
from torch import nn

from advantage import gae


class Agent(nn.Module):
    def __init__(self, observed=32, width=288):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observed, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.mean, self.value = nn.Linear(width, 6), nn.Linear(width, 1)
        self.spread = nn.Parameter(torch.zeros(6))

    def forward(self, x):
        h = self.body(x)
        return torch.distributions.Normal(self.mean(h), self.spread.exp()), self.value(h).squeeze(-1)


def main(steps=62, episodes=12, length=96):
    torch.manual_seed(0)
    agent = Agent()
    opt = torch.optim.Adam(agent.parameters(), lr=3e-4)
    obs = torch.randn(8, episodes * length, 32)
    act = torch.randn(8, episodes * length, 6)
    rew = torch.rand(8, episodes, length)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        k = step % 8
        pi, value = agent(obs[k])
        with torch.no_grad():
            advantage = rew[k].flatten() - value
            target = advantage + value
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        loss = -(pi.log_prob(act[k]).sum(-1) * advantage).mean() + 0.5 * (value - target).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        times.append(1e3 * (time.perf_counter() - begin))
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
