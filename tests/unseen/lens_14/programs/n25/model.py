import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocab=600, width=128, depth=2, length=48):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, vocab, bias=False)
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1), persistent=False)

    def forward(self, ids):
        h = self.words(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            h = block(h, src_mask=self.mask, is_causal=True)
        return self.out(self.norm(h))
