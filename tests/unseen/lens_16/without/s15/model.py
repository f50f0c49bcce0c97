import torch
from torch import nn
from torch.nn import functional as F


class Reader(nn.Module):
    """Language model of two causal layers."""

    def __init__(self, words=2500, width=128, layers=2, longest=96):
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.places = nn.Parameter(0.02 * torch.randn(longest, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, 256)
        self.codes = nn.Linear(256, words)

    def forward(self, tokens):
        seen, wanted = tokens[:, :-1], tokens[:, 1:]
        length = seen.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        h = self.body(self.words(seen) + self.places[:length], mask=mask, is_causal=True)
        logits = self.codes(F.gelu(self.out(h[wanted > 0])))
        return F.cross_entropy(logits, wanted[wanted > 0])
