import torch


def gae(rewards, values, gamma=0.99, lam=0.95):
    rewards, values = rewards.tolist(), values.tolist()
    out, last, following = [0.0] * len(rewards), 0.0, 0.0
    for t in range(len(rewards) - 1, -1, -1):
        delta = rewards[t] + gamma * following - values[t]
        last = delta + gamma * lam * last
        out[t] = last
        following = values[t]
    return torch.tensor(out)
