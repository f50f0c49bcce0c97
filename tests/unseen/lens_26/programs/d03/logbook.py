import torch
from torch import nn

TAGS = ("other", "ship", "port", "sea", "person", "cargo", "date")


def write(count=3000, length=32, words=2000, seed=0):
    """Lines of ships' logs, each word with its tag."""
    source = torch.Generator().manual_seed(seed)
    text = torch.randint(0, words, (count, length), generator=source)
    tags = text % len(TAGS)
    noise = torch.rand(count, length, generator=source) < 0.1
    return text, torch.where(noise, 0, tags)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Conv1d(width, width, 3, padding=1)
        self.wide = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

    def forward(self, x):
        x = x + self.mix(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.wide(x)


class Tagger(nn.Module):
    def __init__(self, words=2000, width=128, depth=2):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.tags = nn.Linear(width, len(TAGS))

    def forward(self, text):
        x = self.words(text)
        for block in self.blocks:
            x = block(x)
        return self.tags(x)
