import statistics
import time

import torch
from torch.nn import functional as F

from shop import Shop, visits


def main(steps=60, batch=384):
    torch.manual_seed(0)
    model = Shop()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    seen, bought = visits(30000)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 30000, (batch,))
        loss = F.binary_cross_entropy_with_logits(model(seen[picked]), bought[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
