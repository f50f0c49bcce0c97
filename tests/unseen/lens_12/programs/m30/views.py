import torch


def view(x):
    shift = torch.randint(-3, 4, (2,)).tolist()
    x = x.roll(shift, (-2, -1))
    return (x * (0.8 + 0.4 * torch.rand(len(x), 1, 1, 1))).clamp(0, 1)


def two_views(x):
    return view(x), view(x)
