import torch


def auction(count, seed):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 40, generator=rng)
    price = (x[:, :20] * x[:, 20:]).sum(1, keepdim=True) / 4 + 0.1 * torch.randn(count, 1, generator=rng)
    return x, price
