import statistics
import time

import torch
from torch.nn import functional as F

from upscale import Upscale


def terrain(count, side, made):
    """Heights with rough and smooth parts."""
    heights = sum(
        F.interpolate(torch.randn(count, 1, cells, cells, generator=made), side, mode="bicubic") / cells
        for cells in (4, 8, 16, 32)
    )
    return 4 * heights


def main(steps=60, batch=6, side=64):
    torch.manual_seed(0)
    made = torch.Generator().manual_seed(16)
    high = terrain(400, side, made)
    low = F.avg_pool2d(high, 2)
    model = Upscale()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(high), (batch,), generator=made)
        loss = F.l1_loss(model(low[picked]), high[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"last loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
