"""Next character of Python's own library (real text), a small transformer."""

import statistics
import time

import torch
from torch import nn

from blocks import Stack
from corpus import Corpus


class CharModel(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.embed = nn.Embedding(128, width)
        self.place = nn.Parameter(torch.zeros(48, width))
        self.stack = Stack(4, width)
        self.out = nn.Linear(width, 128)

    def forward(self, ids):
        return self.out(self.stack(self.embed(ids) + self.place))


def main():
    torch.manual_seed(0)
    corpus = Corpus()
    model = CharModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    seconds = []
    for step in range(80):
        t0 = time.perf_counter()
        ids = corpus.batch(16, 49, step)
        scores = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - t0)
    print(f"loss {loss.item():.3f}")
    print(f"{1e3 * statistics.median(seconds):.2f} ms/step median, {1e3 * statistics.mean(seconds):.2f} ms/step")


if __name__ == "__main__":
    main()
