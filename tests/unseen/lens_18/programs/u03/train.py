import statistics
import time

import torch
from torch.nn import functional as F

from reviews import Stars, review_batches


def main(steps=60, batch=32):
    torch.manual_seed(0)
    model = Stars()
    compiled = torch.compile(model, backend="aot_eager", dynamic=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    batches = review_batches(batch, 24, 56)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        ids, stars = next(batches)
        loss = F.cross_entropy(compiled(ids), stars)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
