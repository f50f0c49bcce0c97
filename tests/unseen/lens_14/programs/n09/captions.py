import torch
from torch import nn


class Captioner(nn.Module):
    """Attends to regions of a picture; while training it sometimes reads its own last word."""

    def __init__(self, vocab=700, width=192, regions=36, feature=128):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.keys = nn.Linear(feature, width)
        self.cell = nn.GRUCell(2 * width, width)
        self.out = nn.Linear(width, vocab)

    def forward(self, regions, words, own=0.25):
        keys = self.keys(regions)
        h, last, scores = keys.mean(1), words[:, 0], []
        for t in range(words.shape[1] - 1):
            look = torch.einsum("bd,brd->br", h, keys).softmax(1)
            seen = torch.einsum("br,brd->bd", look, keys)
            h = self.cell(torch.cat([self.words(last), seen], 1), h)
            score = self.out(h)
            scores.append(score)
            use = torch.rand(len(words)) < own
            last = torch.where(use, score.argmax(1), words[:, t + 1])
        return torch.stack(scores, 1)
