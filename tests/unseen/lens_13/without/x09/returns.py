import torch


def discounted(rewards, gamma):
    out = []
    total = 0.0
    for r in reversed(rewards.tolist()):
        total = r + gamma * total
        out.append(total)
    return torch.tensor(out[::-1])
