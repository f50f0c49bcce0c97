import torch
from torch import nn
from torch.nn import functional as F


def mask_tokens(ids, vocab, mask_id=1, share=0.15):
    labels = torch.full_like(ids, -100)
    chosen = torch.rand(ids.shape) < share
    labels[chosen] = ids[chosen]
    dice = torch.rand(ids.shape)
    ids = torch.where(chosen & (dice < 0.8), mask_id, ids)
    ids = torch.where(chosen & (dice >= 0.9), torch.randint(2, vocab, ids.shape), ids)
    return ids, labels


class MaskedModel(nn.Module):
    def __init__(self, vocab, width=128, depth=2, length=64):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.places = nn.Parameter(torch.randn(length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, activation="gelu", norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(vocab))

    def forward(self, ids, labels):
        h = self.body(self.words(ids) + self.places)
        chosen = labels != -100
        logits = F.linear(self.transform(h[chosen]), self.words.weight, self.bias)
        return F.cross_entropy(logits, labels[chosen])
