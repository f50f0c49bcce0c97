from torch import nn


class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width),
        )
        self.near = nn.Conv1d(width, width, 5, padding=2, groups=4)

    def forward(self, h):
        h = h + self.near(h.transpose(1, 2)).transpose(1, 2)
        return h + self.net(h)


class Folds(nn.Module):
    """Secondary structure of a chain of residues."""

    def __init__(self, residues=24, width=256, layers=3):
        super().__init__()
        self.residues = nn.Embedding(residues, width)
        self.layers = nn.ModuleList(Mixer(width) for _ in range(layers))
        self.out = nn.Linear(width, 3)

    def forward(self, chain):
        h = self.residues(chain)
        for layer in self.layers:
            h = layer(h)
        return self.out(h)
