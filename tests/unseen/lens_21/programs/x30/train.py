import statistics
import time

import torch
from torch.nn import functional as F

from recipes import batches
from writer import Writer


def main(steps=60, size=16):
    torch.manual_seed(0)
    model, data = Writer(), batches(size)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    times, losses = [], []
    for step in range(steps):
        start = time.perf_counter()
        text, following = next(data)
        loss = F.cross_entropy(model(text).flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        times.append(1e3 * (time.perf_counter() - start))
    print(f"loss {torch.stack(losses[-10:]).mean().item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
