import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from echoes import POINTS, Echoes, record


def ranger(width=384):
    return nn.Sequential(
        nn.Linear(POINTS, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
        nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1), nn.Flatten(0),
    )


def main(steps=60, batch=640):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(ranger(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"echoes{rank}.bin")
        record(path)
        loader = DataLoader(Echoes(path, rank, world, batch), batch_size=None)
        dist.barrier()
        times, began = [], time.perf_counter()
        for step, (echo, far) in zip(range(steps), loader):
            loss = F.mse_loss(model(echo), far)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            now = time.perf_counter()
            times.append(1e3 * (now - began))
            began = now
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
