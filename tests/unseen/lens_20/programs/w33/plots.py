import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Attends to what came before, the less the longer ago."""

    def __init__(self, width, heads, longest=384):
        super().__init__()
        self.heads = heads
        self.qkv, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        ago = torch.arange(longest).unsqueeze(1) - torch.arange(longest)
        slopes = 2.0 ** -torch.arange(1, heads + 1)
        bias = -slopes[:, None, None] * ago
        self.register_buffer("bias", bias.masked_fill(ago < 0, float("-inf")))

    def forward(self, x):
        length = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias[:, :length, :length])
        return self.join(x.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = Attention(width, heads)
        self.feed = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

    def forward(self, x):
        x = x + self.attend(self.before(x))
        return x + self.feed(self.after(x))


class Plots(nn.Module):
    """What comes next in a plot, out of its events so far."""

    def __init__(self, events=600, width=96, heads=6, depth=4):
        super().__init__()
        self.events = nn.Embedding(events, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, events)

    def forward(self, x):
        return self.out(self.norm(self.blocks(self.events(x))))
