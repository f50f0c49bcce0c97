import itertools
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from foresight import Foresight
from tides import Share, logbook


def epochs(share):
    for _ in itertools.count():
        yield from share


def main(steps=60):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(Foresight(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    batches = epochs(Share(*logbook(), rank, world))
    times = []
    for step in range(steps):
        began = time.perf_counter()
        days, ahead = next(batches)
        loss = F.mse_loss(model(days), ahead)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
