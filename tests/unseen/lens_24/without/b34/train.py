import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from timetable import Clerk, departures


def main(steps=60, batch=16):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    tables = departures()
    model = Clerk()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    picker = torch.Generator().manual_seed(0)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        rows = tables[torch.randint(len(tables), (batch,), generator=picker)]
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
