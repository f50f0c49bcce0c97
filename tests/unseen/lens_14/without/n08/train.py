import statistics
import time

import torch

from ppo import Agent, Chains, rollout


def main(steps=60, worlds=64, length=16, epochs=3, pieces=4, clip=0.2, stop=0.05):
    torch.manual_seed(0)
    agent = Agent()
    env = Chains(worlds, torch.Generator().manual_seed(1))
    opt = torch.optim.Adam(agent.parameters(), lr=2e-4, eps=1e-5)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        states, actions, logs, gains, goals = rollout(env, agent, length)
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        for _ in range(epochs):
            for pick in torch.randperm(len(states)).chunk(pieces):
                policy, value = agent(states[pick])
                change = policy.log_prob(actions[pick]) - logs[pick]
                ratio = change.exp()
                gain = gains[pick]
                loss = -torch.min(ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain).mean()
                loss = loss + 0.5 * (value - goals[pick]).square().mean() - 0.01 * policy.entropy().mean()
                opt.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                opt.step()
        times.append(1e3 * (time.perf_counter() - begin))
    times = times[3:]
    print(f"goal {goals.mean().item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
