import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from load import Forecaster, weeks


def launch(module):
    flat = torch.cat([p.grad.flatten() for p in module.parameters()])
    return dist.all_reduce(flat, async_op=True), flat, module


def land(opened, world):
    for work, flat, module in opened:
        work.wait()
        parts = flat.div_(world).split([p.numel() for p in module.parameters()])
        for p, g in zip(module.parameters(), parts):
            p.grad = g.view_as(p)


def main(steps=60, meters=128, days=21):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        past, target = weeks(meters, days, g)
        count = torch.tensor([float(len(past))])
        dist.all_reduce(count, async_op=True).wait()
        optimizer.zero_grad()
        loss = F.mse_loss(model(past), target, reduction="sum") * world / (24 * count.item())
        loss.backward()
        opened = [launch(model.decoder), launch(model.encoder)]
        rate = 2e-3 * min(1.0, (step + 1) / 10)
        for group in optimizer.param_groups:
            group["lr"] = rate
        land(opened, world)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
