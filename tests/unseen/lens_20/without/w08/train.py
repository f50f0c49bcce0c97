import statistics
import time

import torch
from torch.nn import functional as F

from routes import Routes, routes


def main(steps=60, batch=14):
    torch.manual_seed(0)
    model = Routes()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.02, fused=True)
    stops, minutes = routes()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(stops), (batch,))
        loss = F.l1_loss(model(stops[picked]), minutes[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
