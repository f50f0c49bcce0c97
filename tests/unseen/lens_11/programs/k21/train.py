"""Mixture of densities for travel times; the cheap activation of each block is checkpointed to save memory."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from pace import Pace

STEPS = 64


class Gate(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, -1)
        return a * torch.sigmoid(b)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.wide = nn.Linear(width, 2 * width)
        self.gate = Gate()
        self.back = nn.Linear(width, width)

    def forward(self, x):
        return x + self.back(checkpoint(self.gate, self.wide(x), use_reentrant=False))


class Density(nn.Module):
    def __init__(self, width=640, mixtures=8):
        super().__init__()
        self.first = nn.Linear(30, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.last = nn.Linear(width, 3 * mixtures)

    def forward(self, x, y):
        h = self.first(x)
        for block in self.blocks:
            h = block(h)
        weight, mean, scale = self.last(h).chunk(3, -1)
        each = torch.distributions.Normal(mean, F.softplus(scale) + 1e-3).log_prob(y)
        return -torch.logsumexp(F.log_softmax(weight, -1) + each, -1).mean()


torch.manual_seed(2)
trips, minutes = torch.randn(8192, 30), torch.rand(8192, 1)
model = Density()
opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
pace = Pace()
for step in range(STEPS):
    pick = torch.randint(0, 8192, (160,))
    loss = model(trips[pick], minutes[pick])
    opt.zero_grad()
    loss.backward()
    opt.step()
    pace.tick()
print(f"negative log likelihood {loss.item():.4f}")
pace.report()
