import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from plots import Plots


def main(steps=60, batch=10, length=48):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Plots(), gradient_as_bucket_view=True)  #: LINE
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    torch.manual_seed(1 + rank)
    told = torch.randint(0, 600, (1200, length + 1))
    times = []
    for step in range(steps):
        began = time.perf_counter()
        plot = told[torch.randint(0, len(told), (batch,))]
        loss = F.cross_entropy(model(plot[:, :-1]).flatten(0, 1), plot[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
