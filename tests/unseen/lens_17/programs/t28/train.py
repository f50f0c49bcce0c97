import statistics
import time

import torch
from torch.nn import functional as F

from pose import PoseNet, figures


def main(steps=60, batch=10):
    torch.manual_seed(0)
    model = PoseNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(4)
    times, seen = [], {}
    for step in range(steps):
        began = time.perf_counter()
        pictures, maps = figures(batch, g)
        guess = model(pictures)
        errors = F.mse_loss(guess, maps, reduction="none").mean((0, 2, 3))
        optimizer.zero_grad()
        errors.mean().backward()
        optimizer.step()
        for joint, error in enumerate(errors.tolist()):
            seen[joint] = 0.9 * seen.get(joint, error) + 0.1 * error
        times.append(1e3 * (time.perf_counter() - began))
    print("hardest joint", max(seen, key=seen.get))
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
