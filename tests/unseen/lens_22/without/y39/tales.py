import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.size = width // heads

    def attend(self, x):
        q, k, v = (part(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for part in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(self.norm(x))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Teller(nn.Module):
    def __init__(self, words=800, width=128, heads=4, depth=2):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))
