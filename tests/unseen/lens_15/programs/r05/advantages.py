import torch


def advantages(rewards, values, last, gamma=0.99, lam=0.95):
    """Generalised advantage estimation over (time, envs), for rollouts which never end inside."""
    out = torch.zeros_like(rewards)
    running = torch.zeros_like(last)
    following = last
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * following - values[t]
        running = delta + gamma * lam * running  #: LINE
        out[t] = running
        following = values[t]
    return out, out + values
