import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from contrast import Contrast


def wrap(module):
    return DistributedDataParallel(module, gradient_as_bucket_view=True)  #: LINE


def main(steps=60, batch=288):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = wrap(Contrast())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
    cells = torch.randn(3000, 256, generator=torch.Generator().manual_seed(rank))
    times = []
    for step in range(steps):
        began = time.perf_counter()
        x = cells[torch.randint(0, 3000, (batch,))]
        loss = model(x + 0.1 * torch.randn_like(x), x.roll(1, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.module.remember()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
