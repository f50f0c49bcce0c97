import copy
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from critics import Critics


class Actor(nn.Module):
    def __init__(self, states, actions, width=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(states, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.mean, self.spread = nn.Linear(width, actions), nn.Linear(width, actions)

    def forward(self, x):
        h = self.body(x)
        policy = torch.distributions.Normal(self.mean(h), self.spread(h).clamp(-4, 1).exp())
        raw = policy.rsample()
        action = torch.tanh(raw)
        return action, (policy.log_prob(raw) - torch.log(1 - action**2 + 1e-6)).sum(1)


def main(steps=60, batch=256, states=17, actions=6, alpha=0.1):
    torch.manual_seed(0)
    actor, critics = Actor(states, actions), Critics(states + actions)
    target = copy.deepcopy(critics).requires_grad_(False)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
    critic_optimizer = torch.optim.Adam(critics.parameters(), lr=3e-4)
    g = torch.Generator().manual_seed(2)
    memory = torch.randn(20000, 2 * states + actions + 1, generator=g)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        rows = memory[torch.randint(0, len(memory), (batch,), generator=g)]
        s, s2, a, r = rows.split([states, states, actions, 1], 1)
        with torch.no_grad():
            a2, entropy = actor(s2)
            pair = target(s2, a2)[torch.randperm(critics.count, generator=g)[:2]]
            goal = r + 0.99 * (pair.amin(0) - alpha * entropy[:, None])
        loss = F.mse_loss(critics(s, a), goal.expand(critics.count, -1, -1))
        critic_optimizer.zero_grad()
        loss.backward()
        critic_optimizer.step()
        fresh, entropy = actor(s)
        gain = critics(s, fresh).mean(0).squeeze(1) - alpha * entropy
        actor_optimizer.zero_grad()
        (-gain.mean()).backward()
        actor_optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(target.parameters()), list(critics.parameters()), 0.005)
        times.append(1e3 * (time.perf_counter() - began))
    print(f"critics {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
