import torch
from torch import nn


class Recipes(nn.Module):
    """The next sign of a recipe, by those before it."""

    def __init__(self, signs, width=160, length=64):
        super().__init__()
        self.signs = nn.Embedding(signs, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, signs)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, x):
        return self.out(self.layers(self.signs(x) + self.places, mask=self.mask, is_causal=True))


class Alphabet:
    def __init__(self, text):
        self.signs = sorted(set(text))
        self.place = {sign: i for i, sign in enumerate(self.signs)}

    def encode(self, text):
        return torch.tensor([self.place[sign] for sign in text])

    def decode(self, ids):
        return "".join(self.signs[i] for i in ids.tolist())
