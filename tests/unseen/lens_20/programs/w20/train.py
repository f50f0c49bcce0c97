import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from grid import Grid
from ranks import average_gradients, begin_alike


def main(steps=60, batch=800):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = Grid()
    begin_alike(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    use = torch.rand(3000, 90)
    load = (use - use.roll(1, 1)).cumsum(1) / 3
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 3000, (batch,))
        loss = F.mse_loss(model(use[picked]), load[picked])
        optimizer.zero_grad()
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
