import statistics
import time

import torch
from torch import nn

from rollout import collect, episodes


def returns(rewards, gamma=0.99):
    moves = rewards.shape[0]
    powers = gamma ** torch.arange(moves).float()
    table = torch.triu(powers[None] / powers[:, None])
    return table @ rewards


def main(updates=60, parts=4, clip=0.2):
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(24, 144), nn.Tanh(), nn.Linear(144, 144), nn.Tanh(), nn.Linear(144, 4))
    value = nn.Sequential(nn.Linear(24, 144), nn.Tanh(), nn.Linear(144, 1))
    parameters = [*policy.parameters(), *value.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=3e-4)
    times, lengths = [], []
    for update in range(updates):
        began = time.perf_counter()
        batch = collect(policy)
        finished = episodes(batch)
        lengths.extend(last - first + 1 for _, first, last in finished)
        target = returns(batch.rewards).flatten()
        obs, actions = batch.obs.flatten(0, 1), batch.actions.flatten()
        with torch.no_grad():
            old = torch.log_softmax(policy(obs), 1).gather(1, actions[:, None]).squeeze(1)
            advantage = target - value(obs).squeeze(1)
            advantage = (advantage - advantage.mean()) / advantage.std()
        for rows in torch.randperm(len(obs)).chunk(parts):
            new = torch.log_softmax(policy(obs[rows]), 1).gather(1, actions[rows, None]).squeeze(1)
            ratio = (new - old[rows]).exp()
            gain = torch.minimum(ratio * advantage[rows], ratio.clamp(1 - clip, 1 + clip) * advantage[rows])
            loss = -gain.mean() + 0.5 * (value(obs[rows]).squeeze(1) - target[rows]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"{len(lengths)} episodes, mean length {statistics.mean(lengths):.1f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
