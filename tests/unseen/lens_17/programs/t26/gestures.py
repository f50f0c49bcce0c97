import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class GestureNet(nn.Module):
    """Gestures in short clips: 3-D convolutions, then attention over the frames."""

    def __init__(self, width=20, kinds=10, frames=8):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(1, width, 3, (1, 2, 2), 1), nn.ReLU(),
            nn.Conv3d(width, 2 * width, 3, (1, 2, 2), 1), nn.ReLU(),
            nn.Conv3d(2 * width, 2 * width, 3, padding=1), nn.ReLU(),
        )
        self.score = nn.Linear(2 * width, 1)
        self.out = nn.Linear(2 * width, kinds)

    def pool(self, h):
        frames = h.mean((3, 4)).transpose(1, 2)
        return (torch.softmax(self.score(frames), 1) * frames).sum(1)

    def forward(self, clips):
        return self.out(checkpoint(self.pool, self.body(clips), use_reentrant=False))


def clips(count, generator, frames=8, side=32, kinds=10):
    """A blob that moves in one of ten directions."""
    kind = torch.randint(0, kinds, (count,), generator=generator)
    angle = 6.283 * kind / kinds
    t = torch.arange(frames) - frames / 2
    x = side / 2 + 1.5 * t * angle.cos()[:, None]
    y = side / 2 + 1.5 * t * angle.sin()[:, None]
    axis = torch.arange(side)
    across = torch.exp(-((axis - x[..., None]) ** 2) / 8)
    down = torch.exp(-((axis - y[..., None]) ** 2) / 8)
    blob = down[..., :, None] * across[..., None, :]
    return blob[:, None] + 0.1 * torch.randn(count, 1, frames, side, side, generator=generator), kind
