"""Sentence pairs (same meaning or not) through a compiled encoder; lengths are rounded, so there are two shapes."""

import statistics
import time

import torch
from torch import nn

from pairs import batches


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(900, 96)
        self.rnn = nn.ModuleList(nn.TransformerEncoderLayer(96, 6, 288, dropout=0.0, batch_first=True) for _ in range(2))
        self.out = nn.Linear(96, 2)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.rnn:
            x = layer(x)
        return self.out(x.mean(1))


def main():
    torch.manual_seed(0)
    encoder = Encoder()
    compiled = torch.compile(encoder, backend="eager", dynamic=False)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3)
    times = []
    for ids, same in batches(100):
        t0 = time.perf_counter()
        loss = nn.functional.cross_entropy(compiled(ids), same)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - t0))
    print(f"loss {loss.item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
