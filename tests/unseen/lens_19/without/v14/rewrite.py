import torch
from torch import nn


class Rewrite(nn.Module):
    """Rewrites a sentence word by word in the other dialect."""

    def __init__(self, words, width=128, length=48):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, words)

    def forward(self, x):
        return self.out(self.layers(self.words(x) + self.places))
