import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.o(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, w))


class Layer(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = Attention(width, heads)
        self.wide, self.narrow = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        x = x + self.attend(self.n1(x))
        return x + self.narrow(nn.functional.gelu(self.wide(self.n2(x))))


class Melody(nn.Module):
    def __init__(self, notes=130, width=128, depth=2):
        super().__init__()
        self.notes, self.place = nn.Embedding(notes, width), nn.Embedding(80, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, notes)

    def forward(self, x):
        h = self.notes(x) + self.place(torch.arange(x.shape[1]))
        for layer in self.layers:
            h = layer(h)
        return self.out(self.norm(h))
