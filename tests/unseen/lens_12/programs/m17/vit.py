import torch
from torch import nn


class TinyViT(nn.Module):
    def __init__(self, width=128, depth=2, patch=4, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.place = nn.Parameter(torch.zeros(1, (32 // patch) ** 2, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.0, batch_first=True, norm_first=True) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        h = self.patches(x).flatten(2).transpose(1, 2) + self.place
        for layer in self.layers:
            h = layer(h)
        return self.head(h.mean(1))
