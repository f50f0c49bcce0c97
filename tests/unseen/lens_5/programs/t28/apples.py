import torch


def spectra(count, seed):
    rng = torch.Generator().manual_seed(seed)
    grade = torch.randint(0, 5, (count,), generator=rng)
    x = 0.5 * torch.randn(count, 1, 240, generator=rng)
    for k in range(5):
        x[grade == k, :, 40 * k + 20 : 40 * k + 40] += 1.0
    return x, grade
