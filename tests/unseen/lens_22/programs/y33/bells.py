import torch
from torch import nn


class Turned(torch.autograd.Function):
    """Passes x on, and its gradient with the other sign."""

    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


class Listener(nn.Module):
    def __init__(self, width=64, kinds=8):
        super().__init__()
        self.ear = nn.Sequential(
            nn.Conv1d(1, width, 7, 2, 3), nn.ReLU(), nn.Conv1d(width, width, 5, 2, 2), nn.ReLU(),
            nn.Conv1d(width, 2 * width, 5, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(),
        )
        self.kind = nn.Linear(8 * width, kinds)

    def forward(self, sound):
        heard = self.ear(sound)
        return heard, self.kind(heard)


class Place(nn.Module):
    """Tells from what was heard in which of two towers it was."""

    def __init__(self, width=512):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, heard):
        return self.net(heard).squeeze(1)


def bells(count=1500, length=256, kinds=8):
    kind = torch.randint(0, kinds, (count,))
    clock = torch.arange(length) / 20
    sound = ((kind[:, None] + 2) * clock).sin() * (-clock / 6).exp()
    tower = torch.randint(0, 2, (count,)).float()
    sound = sound + 0.2 * tower[:, None] * (9.5 * clock).sin() + 0.1 * torch.randn(count, length)
    return sound.unsqueeze(1), kind, tower
