import torch.nn as nn


class Mix(nn.Module):
    def __init__(self, patches, dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tok = nn.Linear(patches, patches)
        self.ch = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))

    def forward(self, x):
        x = x + self.tok(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.ch(self.n2(x))


def mixer(depth=2, patches=36, dim=96, classes=10):
    return nn.Sequential(nn.Linear(75, dim), *[Mix(patches, dim) for _ in range(depth)], nn.LayerNorm(dim), nn.Flatten(), nn.Linear(dim * patches, classes))
