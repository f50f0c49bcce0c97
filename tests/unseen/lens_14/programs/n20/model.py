import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv1d(width, width, 5, padding=2, groups=width)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

    def forward(self, x):
        h = self.depthwise(x.transpose(1, 2)).transpose(1, 2)
        return x + self.mlp(self.norm(h))


class Recognizer(nn.Module):
    """Layers are left out at random while training (LayerDrop), the same ones on each rank."""

    def __init__(self, bins=40, width=112, depth=5, tokens=64, drop=0.2):
        super().__init__()
        self.first = nn.Conv1d(bins, width, 3, stride=2, padding=1)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.out = nn.Linear(width, tokens)
        self.drop, self.dice = drop, torch.Generator().manual_seed(0)

    def forward(self, x):
        h = self.first(x).transpose(1, 2)
        for layer in self.layers:
            if torch.rand((), generator=self.dice) < self.drop:
                continue
            h = layer(h)
        return self.out(h).log_softmax(-1)
