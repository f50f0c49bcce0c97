import torch
from torch import nn
from torch.nn import functional as F


class Pictures(nn.Module):
    def __init__(self, dim, width=40):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.GroupNorm(8, width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.GroupNorm(8, 2 * width), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.ReLU(),
        )
        self.out = nn.Linear(2 * width, dim)

    def forward(self, x):
        return self.out(self.body(x).mean((2, 3)))


class Captions(nn.Module):
    def __init__(self, dim, vocab=800, width=128):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 1)
        self.out = nn.Linear(width, dim)

    def forward(self, ids):
        return self.out(self.body(self.embed(ids)).mean(1))


class Clip(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.pictures, self.captions = Pictures(dim), Captions(dim)
        self.scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, images, ids):
        return F.normalize(self.pictures(images), dim=1), F.normalize(self.captions(ids), dim=1), self.scale.exp()
