import torch
from torch import nn
from torch.nn import functional as F


class Bert4Rec(nn.Module):
    def __init__(self, items=3000, length=40, dim=128, layers=2):
        super().__init__()
        self.items = nn.Embedding(items, dim)
        self.places = nn.Parameter(0.02 * torch.randn(length, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, items)

    def forward(self, seen, rows, hidden):
        h = self.norm(self.body(self.items(seen) + self.places))
        where = hidden.flatten().nonzero().squeeze(1)
        logits = self.out(h.flatten(0, 1)[where])
        return F.cross_entropy(logits, rows.flatten()[where])
