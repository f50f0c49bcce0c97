import torch
from torch import nn


class AutoEncoder(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(1, width, 3, 1, 1), nn.ELU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ELU(),
            nn.Conv2d(2 * width, 3 * width, 3, 2, 1), nn.ELU(),
        )
        self.up = nn.Sequential(
            nn.ConvTranspose2d(3 * width, 2 * width, 4, 2, 1), nn.ELU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ELU(), nn.Conv2d(width, 1, 3, 1, 1),
        )

    def forward(self, x):
        return self.up(self.down(x))


def grains(count, side=40):
    rough = torch.randn(count, 1, side // 5, side // 5)
    return nn.functional.interpolate(rough, size=(side, side), mode="bilinear", align_corners=False)
