import statistics
import time

import torch
from torch.nn import functional as F

from clicks import endless, visits
from tower import Shop

ITEMS, USERS = 150_000, 2_000


def main(steps=60, size=1024):
    torch.manual_seed(0)
    model = Shop(ITEMS, USERS)
    batches = endless(visits(40_000, ITEMS, USERS), size)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    times, losses = [], []
    for step in range(steps):
        start = time.perf_counter()
        user, seen, offered, bought = next(batches)
        loss = F.binary_cross_entropy_with_logits(model(user, seen, offered), bought)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        times.append(1e3 * (time.perf_counter() - start))
    print(f"loss {torch.stack(losses[-10:]).mean().item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
