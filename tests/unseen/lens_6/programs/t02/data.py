"""Digits: a batch is a matrix and a list of labels."""
import random

import torch


class Digits:
    def __init__(self, batch, width):
        self.random = random.Random(3)
        self.generator = torch.Generator().manual_seed(3)
        self.batch, self.width = batch, width

    def next(self):
        labels = [self.random.randrange(10) for _ in range(self.batch)]
        return torch.randn(self.batch, self.width, generator=self.generator), labels
