import torch
from torch import nn


class CharLM(nn.Module):
    def __init__(self, chars=96, width=256, layers=4):
        super().__init__()
        self.chars = nn.Embedding(chars, width)
        self.place = nn.Parameter(0.02 * torch.randn(64, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, chars)

    def forward(self, x):
        n = x.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        return self.out(self.blocks(self.chars(x) + self.place[:n], mask=mask, is_causal=True))


def text(length=20000, seed=2):
    g = torch.Generator().manual_seed(seed)
    word = torch.randint(96, (40, 7), generator=g)
    return word[torch.randint(40, (length // 7,), generator=g)].flatten()
