import torch
from torch import nn


class Captioner(nn.Module):
    """A line of words about a picture given as region features."""

    def __init__(self, regions=36, features=128, words=800, width=128):
        super().__init__()
        self.see = nn.Linear(features, width)
        self.words = nn.Embedding(words, width)
        self.layer = nn.TransformerDecoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.out = nn.Linear(width, words)

    def forward(self, regions, words):
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        return self.out(self.layer(self.words(words), self.see(regions), tgt_mask=mask, tgt_is_causal=True))


def pictures(count, generator, length=16, words=800):
    start = torch.randint(0, words, (count, 1), generator=generator)
    line = (start + 5 * torch.arange(length + 1)) % words
    regions = torch.randn(count, 36, 128, generator=generator)
    regions[:, 0] += start / words
    return regions, line
