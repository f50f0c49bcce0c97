import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(self.one(x)).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, c)
        x = x + self.join(h)
        return x + self.feed(self.two(x))


class CharacterLM(nn.Module):
    """A language model; every place but the last says what comes next."""

    def __init__(self, symbols=256, width=160, layers=3, longest=64):
        super().__init__()
        self.symbols = nn.Embedding(symbols, width)
        self.places = nn.Parameter(0.02 * torch.randn(longest, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, symbols)

    def forward(self, input_ids, labels=None):
        h = self.symbols(input_ids) + self.places[: input_ids.shape[1]]
        for block in self.blocks:
            h = block(h)
        h = self.norm(h)
        logits = self.out(h)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return {"loss": loss, "logits": logits, "summary": h.mean(1)}


class Lines(torch.utils.data.Dataset):
    def __init__(self, count=2000, length=64):
        g = torch.Generator().manual_seed(9)
        start = torch.randint(0, 256, (count, 1), generator=g)
        self.lines = (start + torch.cumsum(torch.randint(0, 3, (count, length), generator=g), 1)) % 256

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        return {"input_ids": self.lines[index], "labels": self.lines[index]}
