from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, shrink=False):
        super().__init__()
        self.one = nn.Conv2d(width, width, 3, 2 if shrink else 1, 1)
        self.two = nn.Conv2d(width, width, 3, 1, 1)
        self.shrink = shrink

    def forward(self, x):
        seen = self.two(F.relu(self.one(x)))
        return F.relu(seen + (F.avg_pool2d(x, 2) if self.shrink else x))


class Stem(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.read = nn.Conv2d(3, width, 3, 1, 1)

    def forward(self, x):
        return F.relu(self.read(x))


class Answer(nn.Module):
    def __init__(self, width, kinds):
        super().__init__()
        self.kind = nn.Linear(width, kinds)

    def forward(self, x):
        return self.kind(x.mean((2, 3)))


def layers(rank, width=40, kinds=20):
    """The part of the network that lives on this rank: two blocks at 40 x 40, one at 20 x 20, one at 10 x 10, two at 5 x 5."""
    blocks = [Block(width, shrink) for shrink in (False, False, True, True, True, False)]
    cut = len(blocks) // 2  #: LINE
    if rank == 0:
        return nn.Sequential(Stem(width), *blocks[:cut])
    return nn.Sequential(*blocks[cut:], Answer(width, kinds))
