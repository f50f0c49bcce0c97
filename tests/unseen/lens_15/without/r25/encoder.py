import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocab, length=48, dim=128, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim)
        self.places = nn.Parameter(0.02 * torch.randn(length, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, dropout=0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.out(self.body(self.tokens(ids) + self.places))
