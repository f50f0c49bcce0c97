import torch
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, pixels=784, width=640, code=24):
        super().__init__()
        self.enter = nn.Sequential(nn.Linear(pixels, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.mean, self.log_var = nn.Linear(width, code), nn.Linear(width, code)
        self.leave = nn.Sequential(
            nn.Linear(code, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, pixels)
        )

    def loss(self, x):
        h = self.enter(x)
        mean, log_var = self.mean(h), self.log_var(h)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        seen = F.binary_cross_entropy_with_logits(self.leave(z), x, reduction="sum")
        prior = -0.5 * (1 + log_var - mean.pow(2) - log_var.exp()).sum()
        return (seen + prior) / len(x)


def digits(count=4000):
    g = torch.Generator().manual_seed(6)
    kind = torch.randint(0, 10, (count,), generator=g)
    shapes = (torch.rand(10, 784, generator=g) < 0.2).float()
    flips = (torch.rand(count, 784, generator=g) < 0.05).float()
    return (shapes[kind] - flips).abs()
