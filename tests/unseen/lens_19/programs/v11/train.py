import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from quality import quality


def blooms(kinds, width=40):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(),
        nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(8 * width, kinds),
    )


def main(steps=60, batch=48, kinds=24):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = DistributedDataParallel(blooms(kinds), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, fused=True)
    g = torch.Generator().manual_seed(rank)
    pictures = torch.randn(1200, 3, 32, 32, generator=g)
    bloom = torch.randint(0, kinds, (1200,), generator=g)
    report = quality(kinds)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 1200, (batch,))
        kind = bloom[picked]
        logits = net(pictures[picked])
        loss = F.cross_entropy(logits, kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        report(logits.detach(), kind)
        times.append(1e3 * (time.perf_counter() - began))
    shown = report.compute()
    if rank == 0:
        print(f"loss {loss.item():.5f} " + " ".join(f"{name} {value:.4f}" for name, value in shown.items()))
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
