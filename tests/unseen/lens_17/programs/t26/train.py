import statistics
import time

import torch
from torch.nn import functional as F

from gestures import GestureNet, clips


def main(steps=60, batch=11):
    torch.manual_seed(0)
    model = GestureNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(6)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        x, kind = clips(batch, g)
        loss = F.cross_entropy(model(x), kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
