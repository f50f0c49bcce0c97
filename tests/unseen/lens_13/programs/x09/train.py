import statistics
import time

import torch
from torch import nn
from torch.distributions import Categorical

from returns import discounted


class ActorCritic(nn.Module):
    def __init__(self, observed=48, actions=9, width=320):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(observed, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.policy, self.value = nn.Linear(width, actions), nn.Linear(width, 1)

    def forward(self, x):
        h = self.trunk(x)
        return Categorical(logits=self.policy(h)), self.value(h).squeeze(-1)


def recorded(episodes=80, length=72, observed=48, actions=9):
    g = torch.Generator().manual_seed(11)
    return [
        (torch.randn(length, observed, generator=g), torch.randint(actions, (length,), generator=g), torch.rand(length, generator=g))
        for _ in range(episodes)
    ]


def main(steps=62, per_step=16, gamma=0.98):
    torch.manual_seed(0)
    net = ActorCritic()
    opt = torch.optim.Adam(net.parameters(), lr=7e-4)
    log = recorded()
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        chosen = [log[(step * per_step + k) % len(log)] for k in range(per_step)]
        obs = torch.cat([o for o, _, _ in chosen])
        act = torch.cat([a for _, a, _ in chosen])
        ret = torch.cat([discounted(r, gamma) for _, _, r in chosen])
        pi, value = net(obs)
        advantage = ret - value
        loss = -(pi.log_prob(act) * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean() - 0.01 * pi.entropy().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        times.append(1e3 * (time.perf_counter() - begin))
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
