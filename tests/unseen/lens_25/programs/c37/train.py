import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F


class Tied(nn.Module):
    """Next piece of a recipe in a made-up language; one table for what goes in and what comes out."""

    def __init__(self, pieces=6000, width=128, depth=2):
        super().__init__()
        self.table = nn.Embedding(pieces, width)
        nn.init.normal_(self.table.weight, std=0.02)
        self.memory = nn.LSTM(width, width, depth, batch_first=True)
        self.bias = nn.Parameter(torch.zeros(pieces))

    def forward(self, pieces):
        states, _ = self.memory(self.table(pieces))
        return F.linear(states, self.table.weight, self.bias)


def stream(length=1 << 17, pieces=6000):
    made = torch.Generator().manual_seed(26)
    return (torch.randint(0, 30, (length,), generator=made).cumsum(0) * 11) % pieces


def main(steps=60, batch=10, window=24):
    torch.manual_seed(0)
    text = stream()
    model = Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    offsets = torch.arange(window + 1)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        starts = torch.randint(0, len(text) - window - 1, (batch, 1))
        cut = text[starts + offsets]
        loss = F.cross_entropy(model(cut[:, :-1]).flatten(0, 1), cut[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"last loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
