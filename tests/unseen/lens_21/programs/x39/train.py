import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from keep import keep
from sky import Sky, days, split


def main(steps=60, batch=240):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = split(Sky(), mesh)
    x, y = days()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1, steps + 1):
            began = time.perf_counter()
            picked = torch.randint(0, len(x), (batch,))
            loss = F.mse_loss(model(x[picked]), y[picked])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 60 == 0:
                keep(model, folder, rank)
            times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
