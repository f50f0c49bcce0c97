import torch


def samples(count, seed):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 120, generator=rng)
    return x, x[:, :40].sum(1, keepdim=True) / 3 + 1.0
