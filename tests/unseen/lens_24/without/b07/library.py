import random

import numpy as np
import torch
from torch import nn


class Loans:
    """Who borrowed which books in ten years; regular readers only."""

    def __init__(self, readers=400, books=6000, each=1800, seed=0):
        dice = np.random.default_rng(seed)
        taste = dice.integers(0, books, readers)
        self.books, self.readers = books, readers
        self.borrowed = []
        for centre in taste:
            reach = np.unique((centre + dice.normal(0, 1200, each).astype(int)) % books)
            self.borrowed.append(dice.permutation(reach).tolist())


class Contrast:
    """Batches of a reader, a book of his, and books that he never had."""

    def __init__(self, loans, others=8, seed=0):
        self.loans, self.others = loans, others
        self.known = [set(books) for books in loans.borrowed]
        self.dice = random.Random(seed)

    def strangers(self, reader):
        known, picked = self.known[reader], []
        while len(picked) < self.others:
            book = self.dice.randrange(self.loans.books)
            if book not in known:
                picked.append(book)
        return picked

    def batch(self, size):
        readers = [self.dice.randrange(self.loans.readers) for _ in range(size)]
        books = [[self.dice.choice(self.loans.borrowed[reader]), *self.strangers(reader)] for reader in readers]
        return torch.tensor(readers), torch.tensor(books)


class Towers(nn.Module):
    def __init__(self, readers, books, width=64, hidden=320):
        super().__init__()
        self.readers, self.books = nn.Embedding(readers, width), nn.Embedding(books, width)
        self.reader_tower = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))
        self.book_tower = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, width))

    def forward(self, readers, books):
        reader = self.reader_tower(self.readers(readers))
        book = self.book_tower(self.books(books))
        return (book @ reader.unsqueeze(2)).squeeze(2)
