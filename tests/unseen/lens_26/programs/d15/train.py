import statistics
import time

import torch
from torch.nn import functional as F

from houses import Houses, draws, pricer


def main(steps=60, batch=512):
    torch.manual_seed(0)
    loader = draws(Houses(), batch)
    model = pricer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times, began = [], time.perf_counter()
    for step in range(steps):
        facts, price = next(iter(loader))
        loss = F.smooth_l1_loss(model(facts), price)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
