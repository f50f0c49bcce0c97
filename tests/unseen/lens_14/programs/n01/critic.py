import torch
from torch import nn


class Writer(nn.Module):
    def __init__(self, noise=32, width=256, size=128):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(noise, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, size), nn.Tanh()
        )

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self, size=128, c=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, c, 5, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(c, c, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(c, 2 * c, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(2 * c * size // 4, 1),
        )

    def forward(self, x):
        return self.net(x[:, None]).squeeze(1)


def gradient_penalty(critic, real, fake):
    share = torch.rand(len(real), 1)
    between = (share * real + (1 - share) * fake).requires_grad_()
    score = critic(between)
    (slope,) = torch.autograd.grad(score.sum(), between, create_graph=True)
    return (slope.norm(2, dim=1) - 1).square().mean()
