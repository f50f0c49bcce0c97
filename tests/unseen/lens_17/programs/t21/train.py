import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from upscale import Upscaler, patches


def keep(folder, model, step):
    """Rank 0 writes, the others wait until the file is there."""
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), os.path.join(folder, f"{step:05d}.pt"))
    dist.barrier()


def main(steps=60, batch=4, side=64):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Upscaler())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for step in range(steps):
            dist.barrier()
            began = time.perf_counter()
            small, large = patches(batch, side, g)
            loss = F.l1_loss(model(small), large)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 30 == 29:
                keep(folder, model, step)
            times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
