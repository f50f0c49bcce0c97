import torch
from torch import nn


class Albertine(nn.Module):
    """One layer, used again and again (as in ALBERT)."""

    def __init__(self, vocab=500, dim=384, loops=4):
        super().__init__()
        self.words = nn.Embedding(vocab, dim)
        self.layer = nn.TransformerEncoderLayer(dim, 6, 4 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.answer = nn.Linear(dim, vocab)
        self.loops = loops

    def forward(self, ids):
        h = self.words(ids)
        for _ in range(self.loops):
            h = self.layer(h)
        return self.answer(h)


def masked(ids, gen, share=0.15):
    hide = torch.rand(ids.shape, generator=gen) < share
    return ids.masked_fill(hide, 0), ids.masked_fill(~hide, -100)
