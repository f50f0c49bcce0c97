import torch
from torch import nn


class Stage(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Turbine(nn.Module):
    """Wear of a turbine's blades, from its log."""

    def __init__(self, readings=48, width=96, depth=8, blades=20):
        super().__init__()
        self.enter, self.out = nn.Linear(readings, width), nn.Linear(width, blades)
        self.stages = nn.Sequential(*[Stage(width) for _ in range(depth)])

    def forward(self, x):
        return self.out(self.stages(self.enter(x)))


def log(count=6000, readings=48, blades=20):
    x = torch.randn(count, readings)
    return x, torch.stack([x[:, i] * x[:, i + 1] + x[:, i + 2].abs() for i in range(blades)], 1)
