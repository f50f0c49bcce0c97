import torch
from torch import nn
from torch.nn import functional as F


class Clips(nn.Module):
    """Sounds of a wood: with a name for some of them, without one for the others."""

    def __init__(self, size=400, width=384, goals=64, names=12):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(size, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(),
            nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(),
        )
        self.goal, self.name = nn.Linear(width, goals), nn.Linear(width, names)

    def unnamed(self, clips, centre):
        """One half of the clips has to be like the other, noisier one."""
        out = self.goal(self.trunk(torch.cat([clips, clips + 0.1 * torch.randn_like(clips)])))
        clean, noisy = out.chunk(2)
        goal = ((clean.detach() - centre) / 0.5).softmax(1)
        return -(goal * noisy.log_softmax(1)).sum(1).mean(), clean.detach()

    def named(self, clips, names):
        return F.cross_entropy(self.name(self.trunk(clips)), names)


def mix(step, rank, whole=1200):
    """How many clips of the shift have no name; two such count as one, since they run twice."""
    few, many = whole // 8, 3 * whole // 8
    unnamed = many if (step // 2 + rank) % 2 else few
    return unnamed, whole - 2 * unnamed
