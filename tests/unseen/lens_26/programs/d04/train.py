import math
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from ovens import Baker, days


def checked(loss, step):
    """Says at once when a run is lost."""
    value = loss.item()
    if not math.isfinite(value):
        raise ArithmeticError(f"loss is {value} in step {step}")
    return value


def main(steps=60, batch=24, careful=1):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Baker()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    gauges, bread = days(seed=rank)
    times, began = [], time.perf_counter()
    for step in range(steps):
        picked = torch.randint(0, len(gauges), (batch,))
        optimizer.zero_grad()
        with torch.autograd.set_detect_anomaly(step < careful):
            loss = F.mse_loss(model(gauges[picked]), bread[picked])
            loss.backward()
        value = checked(loss.detach(), step)
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    if rank == 0:
        print(f"loss {value:.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
