import copy
import statistics
import time

import torch

from agent import Agent


def main(steps=60, batch=640, states=24, actions=4):
    torch.manual_seed(0)
    agent = Agent(states, actions)
    slow = copy.deepcopy(agent).requires_grad_(False)
    policy_optimizer = torch.optim.Adam(agent.policy.parameters(), lr=3e-4)
    critic_optimizer = torch.optim.Adam(agent.critics.parameters(), lr=3e-4)
    g = torch.Generator().manual_seed(3)
    memory = torch.randn(30000, 2 * states + actions + 1, generator=g)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        s, s2, a, r = memory[torch.randint(0, len(memory), (batch,), generator=g)].split([states, states, actions, 1], 1)
        with torch.no_grad():
            a2 = (slow.act(s2) + 0.2 * torch.randn(batch, actions, generator=g).clamp(-2.5, 2.5)).clamp(-1, 1)
            goal = r + 0.98 * slow.values(s2, a2).amin(0)
        loss = (agent.values(s, a) - goal).square().mean()
        critic_optimizer.zero_grad()
        loss.backward()
        critic_optimizer.step()
        policy_optimizer.zero_grad()
        (-agent.critics[0](torch.cat([s, agent.act(s)], 1)).mean()).backward()
        policy_optimizer.step()
        with torch.no_grad():
            for old, new in zip(slow.parameters(), agent.parameters()):
                old.lerp_(new, 0.01)
        times.append(1e3 * (time.perf_counter() - began))
    print(f"critics {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
