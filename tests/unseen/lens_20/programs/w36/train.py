import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from routes import Drift, Flights


class Work:
    def __init__(self, batch=40):
        self.rank = dist.get_rank()
        self.flights = Flights(self.rank, dist.get_world_size(), batch)
        torch.manual_seed(0)
        self.model = DistributedDataParallel(Drift(), broadcast_buffers=False, gradient_as_bucket_view=True)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True)

    def step(self, number):
        fixes, drift = self.flights[number]
        loss = F.mse_loss(self.model(fixes), drift)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def main(steps=60):
    dist.init_process_group("gloo")
    work, times = Work(), []
    for number in range(steps):
        began = time.perf_counter()
        loss = work.step(number)
        times.append(1e3 * (time.perf_counter() - began))
    if work.rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
