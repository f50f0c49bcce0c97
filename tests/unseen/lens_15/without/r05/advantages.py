import torch


def advantages(rewards, values, last, gamma=0.99, lam=0.95):
    """Generalised advantage estimation over (time, envs), for rollouts which never end inside."""
    following = torch.cat([values[1:], last[None]])
    delta = rewards + gamma * following - values
    t = torch.arange(len(rewards))
    weights = ((gamma * lam) ** (t[None] - t[:, None]).clamp(min=0)).triu()
    out = weights @ delta
    return out, out + values
