import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from tracks import Tracks, snow


def main(steps=60, batch=48):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    prints, speed = snow()
    prints, speed = prints[rank::world], speed[rank::world]
    model = DistributedDataParallel(Tracks(), gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(prints), (batch,))
        loss = F.mse_loss(model(prints[picked]), speed[picked])
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
