import random
import statistics
import time

import torch
from torch.nn import functional as F

from traffic import Flow, Town


def main(steps=60, past=24):
    torch.manual_seed(0)
    random.seed(0)
    town = Town()
    model = Flow(past)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    hours = range(past, town.counts.shape[1])
    times = []
    for step in range(steps):
        began = time.perf_counter()
        snapshot, target = town.snapshot(random.choice(hours), past)
        guess = model(**vars(snapshot))
        loss = F.smooth_l1_loss(guess, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
