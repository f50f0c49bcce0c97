import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from journal import Journal


def main(steps=60, batch=512, every=20):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(72, 768), nn.GELU(), nn.Linear(768, 224), nn.GELU(), nn.Linear(224, 768), nn.GELU(),
        nn.Linear(768, 72),
    )
    journal = Journal(net, every)
    net = DistributedDataParallel(net, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    spectra = torch.randn(8000, 72, generator=torch.Generator().manual_seed(rank)).cumsum(1) / 8
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = spectra[torch.randint(0, 8000, (batch,))]
        loss = F.mse_loss(net(picked + 0.1 * torch.randn_like(picked)), picked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        journal.note(step)
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f} {journal.rows[-1]}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
