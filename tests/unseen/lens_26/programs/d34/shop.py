import torch
from torch import nn


class Baskets(nn.Module):
    """Who buys what: a row for each article, the mean of a basket, and a small network."""

    def __init__(self, articles=150000, width=32, inner=512):
        super().__init__()
        self.articles = nn.Embedding(articles, width)  #: LINE
        self.net = nn.Sequential(
            nn.Linear(2 * width, inner), nn.ReLU(), nn.Linear(inner, inner), nn.ReLU(), nn.Linear(inner, 1),
        )

    def forward(self, basket, asked):
        had = self.articles(basket).mean(1)
        return self.net(torch.cat([had, self.articles(asked)], 1)).squeeze(1)


def sell(count=60000, articles=150000, size=10):
    """Baskets of ten articles, an article asked for, and whether it was bought."""
    made = torch.Generator().manual_seed(81)
    basket = (torch.rand(count, size, generator=made) ** 2 * articles).long()
    asked = (torch.rand(count, generator=made) ** 2 * articles).long()
    return basket, asked, (basket[:, 0] % 5 == asked % 5).float()
