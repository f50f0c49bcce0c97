import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from parallel import average_gradients, same_start
from spans import Spans, measure


def main(steps=60, batch=192):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    readings, loads = measure(30000)
    readings, loads = readings[rank::world].contiguous(), loads[rank::world].contiguous()
    model = Spans()
    same_start(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    order = torch.randperm(len(readings), generator=torch.Generator().manual_seed(rank))
    times = []
    for step in range(steps):
        began = time.perf_counter()
        at = step * batch % (len(order) - batch)
        picked = order[at : at + batch]
        optimizer.zero_grad()
        loss = F.mse_loss(model(readings[picked]), loads[picked])
        loss.backward()
        average_gradients(model)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
