import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class Tower(nn.Module):
    def __init__(self, features, width=448, code=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, code))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


class Both(nn.Module):
    """Sketches and what they show, side by side."""

    def __init__(self, features):
        super().__init__()
        self.sketch, self.thing = Tower(features), Tower(features)

    def forward(self, sketch, thing):
        return self.sketch(sketch), self.thing(thing)


class Sharpness(nn.Module):
    """How sharp the likenesses are. Belongs to the loss, outside of the model that DDP holds."""

    def __init__(self):
        super().__init__()
        self.log = nn.Parameter(torch.tensor(2.0))

    def forward(self, a, b):
        likeness = self.log.exp() * a @ b.T
        truth = torch.arange(len(a))
        return (F.cross_entropy(likeness, truth) + F.cross_entropy(likeness.T, truth)) / 2

    @torch.no_grad()
    def share(self):
        dist.all_reduce(self.log.grad)
        self.log.grad /= dist.get_world_size()
