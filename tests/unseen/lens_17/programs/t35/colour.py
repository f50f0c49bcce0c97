import torch
from torch import nn


class Colouriser(nn.Module):
    """Gives colours back to grey pictures by way of a narrow code."""

    def __init__(self, side=24, width=32, code=1024):
        super().__init__()
        flat = 2 * width * (side // 4) ** 2
        self.down = nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(), nn.Flatten()
        )
        self.code = nn.Sequential(nn.Linear(flat, code), nn.ReLU(), nn.Linear(code, flat), nn.ReLU())
        self.up = nn.Sequential(
            nn.Unflatten(1, (2 * width, side // 4, side // 4)),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(width, 3, 4, 2, 1),
        )

    def forward(self, grey):
        return torch.sigmoid(self.up(self.code(self.down(grey))))


class Pictures(torch.utils.data.Dataset):
    def __init__(self, count=800, side=24):
        g = torch.Generator().manual_seed(0)
        coarse = torch.rand(count, 3, 4, 4, generator=g)
        self.colour = nn.functional.interpolate(coarse, size=side, mode="bilinear")

    def __len__(self):
        return len(self.colour)

    def __getitem__(self, index):
        colour = self.colour[index]
        return colour.mean(0, keepdim=True), colour
