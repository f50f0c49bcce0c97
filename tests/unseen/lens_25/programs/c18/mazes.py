import logging

import torch
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

log = logging.getLogger("mazes")


def mazes(count=4000, cells=100):
    """Mazes from above, and how many steps there are from each cell to the way out, roughly."""
    walls = (torch.rand(count, cells) < 0.3).float()
    return walls, (walls.cumsum(1) - walls.flip(1).cumsum(1)).tanh()


class Mixer(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.act, self.down = nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class Solver(nn.Module):
    def __init__(self, cells=100, width=256, hidden=1536, layers=2):
        super().__init__()
        self.enter = nn.Linear(cells, width)
        self.mixers = nn.ModuleList(Mixer(width, hidden) for _ in range(layers))
        self.leave = nn.Linear(width, cells)

    def forward(self, walls):
        x = self.enter(walls)
        log.debug("entered %s", x)
        for number, mixer in enumerate(self.mixers):
            x = mixer(x)
            log.debug("layer %d gives %s", number, x)
        return self.leave(x)


def split(model, mesh):
    for mixer in model.mixers:
        parallelize_module(mixer, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model
