import torch
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, size=784, width=208, latent=32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.mean, self.logvar = nn.Linear(width, latent), nn.Linear(width, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, size)
        )

    def forward(self, x):
        h = self.encoder(x)
        mean, logvar = self.mean(h), self.logvar(h)
        z = mean + (0.5 * logvar).exp() * torch.randn_like(mean)
        return self.decoder(z), mean, logvar


def loss_parts(x, logits, mean, logvar):
    pixels = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
    kl = -0.5 * (1 + logvar - mean.square() - logvar.exp()).sum() / len(x)
    return pixels, kl
