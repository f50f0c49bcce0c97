import torch
from torch import nn


class Mosaic(nn.Module):
    """A small vision transformer that says which of eight patterns a mosaic shows."""

    def __init__(self, side=32, patch=4, width=128, depth=4, patterns=8):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.place = nn.Parameter(0.02 * torch.randn((side // patch) ** 2, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.head = nn.Linear(width, patterns)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.place
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


def groups(model, lr, decay=0.75):
    """One group for each layer, the lower ones learn more slowly."""
    parts = [[*model.patch.parameters(), model.place], *(list(layer.parameters()) for layer in model.layers),
             list(model.head.parameters())]
    return [{"params": part, "lr": lr * decay ** (len(parts) - 1 - i)} for i, part in enumerate(parts)]


def mosaics(count=600, patterns=8, side=32):
    kinds = torch.randint(0, patterns, (count,))
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    waves = torch.stack([((x * (k % 4 + 1) + y * (k // 4 * 3)) / 5).sin() for k in range(patterns)])
    return waves[kinds].unsqueeze(1) + 0.4 * torch.randn(count, 3, side, side), kinds
