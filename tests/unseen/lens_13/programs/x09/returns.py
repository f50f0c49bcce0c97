import torch


def discounted(rewards, gamma):
    out = []
    total = torch.zeros(())
    for t in reversed(range(len(rewards))):
        total = rewards[t] + gamma * total  #: LINE
        out.insert(0, total)
    return torch.stack(out)
