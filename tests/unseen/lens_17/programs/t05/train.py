import statistics
import time

import torch
from torch.nn import functional as F

from glyphs import Reader, loader


def main(steps=60):
    torch.manual_seed(0)
    model, pages = Reader(), loader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    times, began = [], time.perf_counter()
    for x, kinds in pages:
        loss = F.cross_entropy(model(x), kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
        if len(times) == steps:
            break
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
