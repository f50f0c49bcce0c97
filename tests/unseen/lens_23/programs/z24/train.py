import statistics
import time

import torch
from torch.nn import functional as F

from tidal import Harbours, Swing


def main(steps=60, batch=80):
    torch.manual_seed(1)
    harbours, model = Harbours(), Swing()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    times, began = [], time.perf_counter()
    for step in range(steps):
        seen, coming = harbours.batch(batch)
        loss = F.mse_loss(model(seen), coming)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
