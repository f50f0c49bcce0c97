import torch


def window(step, count=64, hours=96):
    rng = torch.Generator().manual_seed(step)
    phase = torch.rand(count, 4, 1, generator=rng) * 6.28
    t = torch.arange(hours) * 6.28 / 24
    x = torch.sin(t + phase) + 0.1 * torch.randn(count, 4, hours, generator=rng)
    return x, torch.cat([torch.sin(phase), torch.cos(phase)], 1).squeeze(2)
