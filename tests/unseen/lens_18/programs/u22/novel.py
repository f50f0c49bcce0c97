import torch
from torch import nn


class Novel(nn.Module):
    """Small decoder for the text of novels."""

    def __init__(self, words=3000, width=256, layers=1, length=24):
        super().__init__()
        self.words, self.place = nn.Embedding(words, width), nn.Parameter(0.02 * torch.randn(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, words)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length), persistent=False)

    def forward(self, ids):
        return self.out(self.layers(self.words(ids) + self.place, mask=self.mask, is_causal=True))


class Pages(torch.utils.data.Dataset):
    def __init__(self, count=2000, length=25, words=3000):
        g = torch.Generator().manual_seed(0)
        begin = torch.randint(0, words, (count, 1), generator=g)
        self.rows = (begin + 5 * torch.arange(length) + torch.randint(0, 3, (count, length), generator=g)) % words

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]
