import torch
from torch import nn
from torch.nn import functional as F


class Part(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Gears(nn.Module):
    """Which of sixteen faults a gearbox has, from how it shakes."""

    def __init__(self, seen=200, width=256, depth=2, faults=16):
        super().__init__()
        self.enter = nn.Linear(seen, width)
        self.parts = nn.ModuleList(Part(width) for _ in range(depth))
        self.head = nn.Linear(width, faults)

    def forward(self, x):
        x = self.enter(x)
        for part in self.parts:
            x = part(x)
        return self.head(x)


def shaking(count=6000, seen=200, faults=16):
    fault = torch.randint(0, faults, (count,))
    clock = torch.arange(seen) / 9
    return ((fault[:, None] + 3) * clock / 4).sin() + torch.randn(count, seen), fault
