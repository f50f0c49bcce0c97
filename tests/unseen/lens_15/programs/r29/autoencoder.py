import torch
from torch import nn


def conv(inside, outside, stride=1):
    return nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1), nn.GroupNorm(8, outside), nn.SiLU())


class AutoEncoder(nn.Module):
    def __init__(self, width=32, latent=8):
        super().__init__()
        self.encoder = nn.Sequential(
            conv(3, width, 2), conv(width, 2 * width, 2), conv(2 * width, 2 * width), nn.Conv2d(2 * width, latent, 1)
        )
        self.decoder = nn.Sequential(
            conv(latent, 2 * width), nn.Upsample(scale_factor=2), conv(2 * width, width),
            nn.Upsample(scale_factor=2), conv(width, width), nn.Conv2d(width, 3, 1),
        )

    def forward(self, x):
        return torch.sigmoid(self.decoder(self.encoder(x)))
