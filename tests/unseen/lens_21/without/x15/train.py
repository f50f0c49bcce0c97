import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from graph import Friends


class Places(nn.Module):
    """Gives each person a place; friends are near each other."""

    def __init__(self, people, width=64, hidden=192):
        super().__init__()
        self.table = nn.Embedding(people, width)
        self.turn = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(),
                                  nn.Linear(hidden, width))

    def forward(self, people):
        return F.normalize(self.turn(self.table(people)), dim=-1)


def main(steps=60, batch=320, negatives=6):
    torch.manual_seed(0)
    graph = Friends()
    model = Places(graph.people)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        source, target = graph.ties(batch)
        others = graph.strangers(batch, negatives)
        here = model(source).unsqueeze(1)
        there = model(torch.cat([target.unsqueeze(1), others], 1))
        near = (here * there).sum(-1) / 0.2
        loss = F.cross_entropy(near, torch.zeros(batch, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
