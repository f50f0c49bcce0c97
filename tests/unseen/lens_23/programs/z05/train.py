import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

from quakes import Locator, Quakes, collate


def endless(loader):
    epoch = 0
    while True:
        loader.sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def main(steps=60, batch=32):
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    quakes = Quakes()
    loader = DataLoader(quakes, batch, sampler=DistributedSampler(quakes), collate_fn=collate, drop_last=True)
    model = DDP(Locator(), gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    stream, times = endless(loader), []
    for step in range(steps):
        began = time.perf_counter()
        waves, truth = next(stream)
        loss = F.mse_loss(model(waves), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f} after {len(times)} steps")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
