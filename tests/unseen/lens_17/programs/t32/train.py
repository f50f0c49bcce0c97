import statistics
import time

import torch
from torch.nn import functional as F

from charts import BarReader, Batches


def main(steps=60, batch=24):
    torch.manual_seed(0)
    model = BarReader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times, source = [], iter(Batches(batch))
    for step in range(steps):
        began = time.perf_counter()
        x, heights = next(source)
        loss = F.l1_loss(model(x), heights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
