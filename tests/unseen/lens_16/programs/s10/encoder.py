import torch
from torch import nn


class MaskedLM(nn.Module):
    def __init__(self, words=5000, width=160, layers=2, longest=48):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(0.02 * torch.randn(longest, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, words)

    def forward(self, tokens, chosen):
        h = self.body(self.words(tokens) + self.places)
        # the large projection is made for the hidden words alone, about one in seven
        return self.out(self.norm(h[chosen]))


def hide(tokens, mask_word, share=0.15):
    chosen = torch.rand(tokens.shape) < share
    return tokens.masked_fill(chosen, mask_word), chosen, tokens[chosen]
