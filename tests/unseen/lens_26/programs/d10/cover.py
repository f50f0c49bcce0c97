import torch
from torch import nn

KINDS = ("water", "wood", "meadow", "field", "town", "rock")
UNKNOWN = 255


def tiles(count=256, size=32, bands=5, seed=0):
    """Views from above in five bands, and what covers each point; some points nobody knows."""
    source = torch.Generator().manual_seed(seed)
    truth = torch.randint(0, len(KINDS), (count, size // 8, size // 8), generator=source)
    truth = truth.repeat_interleave(8, 1).repeat_interleave(8, 2)
    views = torch.randn(len(KINDS), bands, generator=source)[truth].movedim(-1, 1)
    views = views + torch.randn(count, bands, size, size, generator=source)
    truth[torch.rand(truth.shape, generator=source) < 0.05] = UNKNOWN
    return views.contiguous(), truth


def mapper(bands=5, width=32):
    return nn.Sequential(
        nn.Conv2d(bands, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, len(KINDS), 1),
    )


class Overlap:
    """Counts over the whole run how often each kind was taken for each; overlap (IoU) from the counts."""

    def __init__(self, kinds):
        self.kinds = kinds
        self.counts = torch.zeros(kinds * kinds, dtype=torch.long)

    def update(self, guess, truth):
        known = truth != UNKNOWN
        both = truth[known] * self.kinds + guess[known]
        self.counts += torch.bincount(both, minlength=self.kinds**2)

    def result(self):
        counts = self.counts.view(self.kinds, self.kinds)
        hits = counts.diagonal()
        return hits / (counts.sum(0) + counts.sum(1) - hits).clamp(min=1)
