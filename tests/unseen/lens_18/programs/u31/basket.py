import torch
from torch import nn
from torch.nn import functional as F


class Articles(nn.Module):
    """A vector for each article of the shop."""

    def __init__(self, articles, size):
        super().__init__()
        self.articles = articles
        self.weight = nn.Parameter(torch.randn(articles, size) / size**0.5)

    def forward(self, ids):
        chosen = F.one_hot(ids, self.articles).to(self.weight.dtype)  #: LINE
        return chosen @ self.weight


class Basket(nn.Module):
    """The next article from the last ones."""

    def __init__(self, articles=2000, size=96, width=640):
        super().__init__()
        self.articles = Articles(articles, size)
        self.past = nn.GRU(size, width // 2, batch_first=True)
        self.out = nn.Sequential(nn.Linear(width // 2, width), nn.GELU(), nn.Linear(width, articles))

    def forward(self, ids):
        return self.out(self.past(self.articles(ids))[0][:, -1])
