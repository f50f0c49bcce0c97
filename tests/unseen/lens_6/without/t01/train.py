"""Fine-tunes a classifier of reviews. The layers run on the device of device.py."""
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

from device import OnDevice, to_device
from reviews import Reviews

STEPS = 70


def main():
    torch.manual_seed(0)
    reviews = Reviews(rows=32, width=64)
    model = nn.Sequential(
        OnDevice(nn.Linear(64, 128), 6, 10),
        nn.ReLU(),
        OnDevice(nn.Linear(128, 128), 6, 10),
        nn.ReLU(),
        OnDevice(nn.Linear(128, 2), 6, 10),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    running, times, last = 0.0, [], time.perf_counter()
    for step in range(STEPS):
        x, y = reviews.tokenize(step)
        x, y = to_device(x), to_device(y)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss.detach()
        if step % 10 == 9:
            print(f"step {step + 1} loss {running / 10:.4f}")
            running = 0.0
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
