from torch import nn
from torch.utils.checkpoint import checkpoint


class Mixing(nn.Module):
    def __init__(self, patches, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches))
        self.along = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

    def forward(self, x):
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.along(self.norm2(x))


class Mixer(nn.Module):
    """An MLP-Mixer over pictures of tree bark."""

    def __init__(self, side=32, patch=4, width=144, depth=4, kinds=20):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.ModuleList(Mixing((side // patch) ** 2, width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, kinds)

    def forward(self, pictures):
        x = self.patch(pictures).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)  #: LINE
        return self.head(self.norm(x).mean(1))
