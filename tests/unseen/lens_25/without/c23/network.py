import torch
from torch import nn


def word_vectors(words=30000, width=128):
    """Stands for a table of word vectors learned elsewhere."""
    return torch.randn(words, width, generator=torch.Generator().manual_seed(11)) / width**0.5


class Complaints(nn.Module):
    """Sorts letters of complaint by department; the word vectors are kept as they came."""

    def __init__(self, vectors, width=256, departments=24):
        super().__init__()
        self.register_buffer("vectors", vectors)
        self.first = nn.Conv1d(vectors.shape[1], width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, padding=1)
        self.head = nn.Linear(width, departments)

    def forward(self, words):
        x = self.vectors[words].transpose(1, 2)
        x = torch.relu(self.second(torch.relu(self.first(x))))
        return self.head(x.amax(2))
