import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from pairs import Pairs, contrast


def main(steps=60, batch=320):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = DistributedDataParallel(Pairs(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-4, fused=True)
    g = torch.Generator().manual_seed(rank)
    kind = torch.randn(4000, 40, generator=g)
    birds = kind.repeat(1, 5) + torch.randn(4000, 200, generator=g)
    songs = kind.repeat(1, 8) + torch.randn(4000, 320, generator=g)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 4000, (batch,))
        loss = contrast(*net(birds[picked], songs[picked]))
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
