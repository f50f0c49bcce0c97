import torch
from torch import nn


class Cells(nn.Module):
    """Kind of a cell by the activity of its genes."""

    def __init__(self, genes=1000, width=512, kinds=30):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(genes, width), nn.SiLU(), nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(),
            nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, kinds),
        )

    def forward(self, x):
        return self.net(x)


def sample(seed, count=4000, genes=1000, kinds=30):
    g = torch.Generator().manual_seed(seed)
    genes = torch.rand(count, genes, generator=g)
    return genes, (genes[:, :5].sum(1) * kinds / 5).long()
