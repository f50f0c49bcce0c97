import statistics
import time

import torch

from bert4rec import Bert4Rec
from items import Sessions


def main(steps=60, batch=32):
    torch.manual_seed(0)
    sessions, model = Sessions(), Bert4Rec()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times, recent = [], []
    for step in range(steps):
        start = time.perf_counter()
        seen, rows, hidden = sessions.batch(batch)
        loss = model(seen, rows, hidden)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recent.append(loss.detach())
        if len(recent) == 30:
            print(f"step {step + 1}: loss {torch.stack(recent).mean().item():.3f}")
            recent.clear()
        times.append(1e3 * (time.perf_counter() - start))
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
