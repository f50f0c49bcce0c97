import contextlib
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from contrast import Encoder, Scale


def main(steps=60, micro=4, size=192, features=96):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model, scale = DDP(Encoder(features), gradient_as_bucket_view=True), Scale()
    optimizer = torch.optim.AdamW([*model.parameters(), *scale.parameters()], lr=5e-4)
    g = torch.Generator().manual_seed(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        for part in range(micro):
            x = torch.randn(size, features, generator=g)
            a = x + 0.3 * torch.randn(size, features, generator=g)
            b = x + 0.3 * torch.randn(size, features, generator=g)
            with model.no_sync() if part < micro - 1 else contextlib.nullcontext():
                (scale(*model(a, b)) / micro).backward()
        # DDP does not know of this one
        dist.all_reduce(scale.log.grad)
        scale.log.grad /= world
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"temperature {(-scale.log).exp().item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
