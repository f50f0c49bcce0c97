import torch
from torch import nn


def rain(batch, frames, size, g):
    """Blobs that drift over a square."""
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    out = torch.zeros(batch, frames, size, size)
    for b in range(batch):
        x, y, vx, vy = (torch.rand(4, generator=g) * torch.tensor([size, size, 4.0, 4.0])).tolist()
        for f in range(frames):
            out[b, f] = torch.exp(-((xx - x - vx * f) ** 2 + (yy - y - vy * f) ** 2) / 60)
    return out


class Nowcast(nn.Module):
    def __init__(self, past, width=28):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(past, width, 5, padding=2), nn.GELU(),
            nn.Conv2d(width, width, 3, padding=1), nn.GELU(),
            nn.Conv2d(width, width, 3, padding=1), nn.GELU(),
            nn.Conv2d(width, 1, 1),
        )

    def forward(self, x):
        return self.net(x)
