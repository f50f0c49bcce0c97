import torch
from torch import nn


class Patches(nn.Module):
    def __init__(self, side, patch, width):
        super().__init__()
        self.cut = nn.Conv2d(3, width, patch, patch)
        self.places = nn.Parameter(0.02 * torch.randn((side // patch) ** 2, width))

    def forward(self, x):
        return self.cut(x).flatten(2).transpose(1, 2) + self.places


class ViT(nn.Module):
    def __init__(self, side=32, patch=8, width=128, layers=4, classes=10):
        super().__init__()
        self.patches = Patches(side, patch, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        h = self.patches(x)
        for layer in self.layers:
            h = layer(h)
        return self.out(self.norm(h.mean(1)))
