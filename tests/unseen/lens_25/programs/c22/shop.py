import torch
from torch import nn


class Taste(nn.Module):
    """Will this reader borrow this book? One vector for each book of a large library."""

    def __init__(self, books=90000, width=32, hidden=640):
        super().__init__()
        self.book = nn.Embedding(books, width)  #: LINE
        self.mix = nn.Sequential(
            nn.Linear(2 * width + 12, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def forward(self, shelf, candidate, reader):
        liked = self.book(shelf).mean(1)
        return self.mix(torch.cat([liked, self.book(candidate), reader], 1)).squeeze(1)


def optimizers(model):
    return [torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)]


def loans(count=20000, books=90000):
    made = torch.Generator().manual_seed(24)
    popular = torch.rand(count, 9, generator=made) ** 3
    picked = (popular * books).long()
    reader = torch.randn(count, 12, generator=made)
    borrowed = (picked[:, 8] < picked[:, :8].float().mean(1)).float()
    return picked[:, :8], picked[:, 8], reader, borrowed
