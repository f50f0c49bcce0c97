import statistics
import time

import torch
from torch.nn import functional as F

from looms import Weave, records


def main(steps=60, batch=96):
    torch.manual_seed(0)
    threads, fault = records()
    model = Weave()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(fault), (batch,))
        loss = F.cross_entropy(model(threads[picked]), fault[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
