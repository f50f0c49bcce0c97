import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from journal import Journal


def readings(count=20_000, sensors=96, seed=0):
    """What sensors in a turbine say, and how hot its bearing will be."""
    source = torch.Generator().manual_seed(seed)
    said = torch.randn(count, sensors, generator=source)
    heat = (said[:, ::7].sum(1) / 4).tanh() + 0.1 * torch.randn(count, generator=source)
    return said, heat


def network(sensors=96, width=384):
    return nn.Sequential(
        nn.Linear(sensors, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
        nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1), nn.Flatten(0),
    )


def main(steps=60, batch=512):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(network(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    said, heat = readings(seed=rank)
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(os.path.join(folder, "run.jsonl")) if rank == 0 else None
        times, began = [], time.perf_counter()
        for step in range(steps):
            picked = torch.randint(0, len(said), (batch,))
            loss = F.mse_loss(model(said[picked]), heat[picked])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if journal:
                journal.note(step, loss=loss.item())
            now = time.perf_counter()
            times.append(1e3 * (now - began))
            began = now
        if journal:
            journal.close()
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
