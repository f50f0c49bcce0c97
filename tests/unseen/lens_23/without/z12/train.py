import statistics
import time

import torch
from torch.nn import functional as F

from flights import Delay, Flights


def main(steps=60, batch=256):
    flights = Flights()
    model = Delay()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=steps)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        facts, late = flights.draw(batch)
        loss = F.huber_loss(model(facts), late)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        plan.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f} after {len(times)} steps")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
