import torch
from torch import nn


class Spectral(nn.Module):
    def __init__(self, c, modes=8):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(c, c, modes, modes, 2) / c)

    def forward(self, x):
        f = torch.fft.rfft2(x)
        m = self.modes
        out = torch.zeros_like(f)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, :m, :m], torch.view_as_complex(self.weight))
        return torch.fft.irfft2(out, s=x.shape[-2:])


class Surrogate(nn.Module):
    def __init__(self, c=28):
        super().__init__()
        self.enter = nn.Conv2d(2, c, 1)
        self.far = nn.ModuleList(Spectral(c) for _ in range(3))
        self.near = nn.ModuleList(nn.Conv2d(c, c, 3, padding=1) for _ in range(3))
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        h = self.enter(x)
        for far, near in zip(self.far, self.near):
            h = torch.nn.functional.gelu(far(h) + near(h))
        return self.out(h)


def runs(count, side=40):
    x = torch.randn(count, 2, side, side)
    smooth = torch.nn.functional.avg_pool2d(x, 5, stride=1, padding=2)
    return x, (smooth[:, :1] * smooth[:, 1:]).contiguous()
