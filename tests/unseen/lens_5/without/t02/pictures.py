import torch


def belt(count, seed):
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 6, (count,), generator=rng)
    x = torch.randn(count, 1, 28, 28, generator=rng) * 0.4
    for k in range(6):
        x[y == k, :, 4 * k : 4 * k + 3, :] += 1.0
    return x, y
