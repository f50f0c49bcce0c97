import lightning as L
import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, half, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(half, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2 * half))

    def forward(self, x):
        a, b = x.chunk(2, -1)
        scale, shift = self.net(a).chunk(2, -1)
        scale = torch.tanh(scale)
        return torch.cat([b * scale.exp() + shift, a], -1), scale.sum(-1)


class Flow(L.LightningModule):
    def __init__(self, size=24, width=320, depth=4):
        super().__init__()
        self.steps = nn.ModuleList(Coupling(size // 2, width) for _ in range(depth))

    def training_step(self, x, i):
        total = 0
        for step in self.steps:
            x, change = step(x)
            total = total + change
        return (0.5 * x.square().sum(-1) - total).mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-4)
