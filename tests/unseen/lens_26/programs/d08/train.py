import gc
import random
import statistics
import time

import torch
from torch.nn import functional as F

from games import Judge, play, together


class Sweeper:
    """We say when garbage is collected, so that no collection comes in the middle of a step."""

    def __init__(self):
        gc.collect()
        gc.freeze()
        gc.disable()

    def sweep(self):
        gc.collect(0)


def main(steps=60, batch=384):
    torch.manual_seed(0)
    chance = random.Random(0)
    positions = play()
    model = Judge()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    sweeper = Sweeper()
    times, began = [], time.perf_counter()
    for step in range(steps):
        squares, white, result = together(chance.sample(positions, batch))
        loss = F.mse_loss(model(squares, white), result)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sweeper.sweep()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
