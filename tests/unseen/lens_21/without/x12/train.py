import statistics
import time

import torch
from torch.utils.data import DataLoader

from reading import layerwise, reader, reviews


def endless(loader):
    while True:
        yield from loader


def main(steps=60, batch=8):
    torch.manual_seed(0)
    model = reader().train()
    pairs = layerwise(model, steps)
    loader = DataLoader(reviews(), batch_size=batch, shuffle=True, drop_last=True)
    times, batches = [], endless(loader)
    for _ in range(steps):
        start = time.perf_counter()
        tokens, good = next(batches)
        loss = model(input_ids=tokens, labels=good).loss
        loss.backward()
        for optimizer, schedule in pairs:
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - start))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
