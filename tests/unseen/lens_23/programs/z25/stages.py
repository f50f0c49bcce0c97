import torch
from torch import nn
from torch.nn import functional as F


class Dense(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


def layers(goods=2600, width=256):
    """From what a customer bought to what comes next: six layers, and a wide one at the end."""
    return nn.Sequential(
        nn.Linear(200, width), *(Dense(width) for _ in range(6)), nn.LayerNorm(width), nn.Linear(width, goods),
    )


def stage_of(rank, kept=5):
    """The first stage has the first and four of the six layers, the second two layers and the wide end."""
    whole = layers()
    return whole[:kept] if rank == 0 else whole[kept:]
