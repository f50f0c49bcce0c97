import time
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint as again


class Block(nn.Module):
    """Attention and a small net; the kernels take their time."""

    def __init__(self, d=32):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, 4, batch_first=True)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def body(self, x):
        time.sleep(0.009)
        return x + self.attn(x, x, x, need_weights=False)[0]

    def wide(self, x):
        return torch.nn.functional.gelu(x) * torch.sigmoid(x)

    def forward(self, x):
        x = again(self.body, x, use_reentrant=False)  #: LINE
        return x + self.down(self.wide(self.up(x)))


class Tagger(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.emb = nn.Embedding(300, d)
        self.blocks = nn.Sequential(*[Block(d) for _ in range(4)])
        self.out = nn.Linear(d, 6)

    def forward(self, ids):
        return self.out(self.blocks(self.emb(ids)))
