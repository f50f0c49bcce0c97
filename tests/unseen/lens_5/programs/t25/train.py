"""Credit risk from a table that came as CSV rows."""

import statistics
import time

import torch
from torch import nn

from rows import Ledger


def main():
    torch.manual_seed(0)
    ledger = Ledger(rows=4000, columns=120)
    net = nn.Sequential(nn.Linear(120, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    taken = []
    for step in range(100):
        t0 = time.perf_counter()
        x, y = ledger.batch(1200, step)
        loss = nn.functional.binary_cross_entropy_with_logits(net(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        taken.append(1e3 * (time.perf_counter() - t0))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(taken):.2f} ms/step median, {statistics.mean(taken):.2f} ms/step")


if __name__ == "__main__":
    main()
