import statistics
import time

import torch
from torch.nn import functional as F

from pointer import Pointer, puzzles


def main(steps=60, batch=28):
    torch.manual_seed(0)
    model = Pointer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    scattered, order = puzzles()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(scattered), (batch,))
        weights = model(scattered[picked])
        loss = F.nll_loss((weights + 1e-9).log().flatten(0, 1), order[picked].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
