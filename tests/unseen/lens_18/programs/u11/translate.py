from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.back = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, h):
        b, n, w = h.shape
        q, k, v = self.qkv(self.first(h)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        h = h + self.back(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, w))
        return h + self.mlp(self.second(h))


class Glosses(nn.Module):
    """Marks each word of a sentence with its gloss in another language."""

    def __init__(self, words=1200, glosses=1200, width=192, layers=3):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.out = nn.Linear(width, glosses)

    def forward(self, ids):
        h = self.words(ids)
        for block in self.blocks:
            h = block(h)
        return self.out(h)
