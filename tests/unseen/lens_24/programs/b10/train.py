import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from hives import DriftGuard, Hum, hums


def main(steps=60, batch=224):
    dist.init_process_group("gloo")
    torch.manual_seed(11)
    hum, answer = hums(30000)
    share = torch.arange(dist.get_rank(), len(hum), dist.get_world_size())
    model = DistributedDataParallel(Hum(), gradient_as_bucket_view=True)
    guard = DriftGuard(model.module, every=500)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
    batches = share[torch.randperm(len(share))].split(batch)
    stamps = [time.perf_counter()]
    for step in range(steps):
        guard(step)
        picked = batches[step % (len(batches) - 1)]
        loss = F.cross_entropy(model(hum[picked]), answer[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stamps.append(time.perf_counter())
    if dist.get_rank() == 0:
        times = [1e3 * (b - a) for a, b in zip(stamps, stamps[1:])][3:]
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
