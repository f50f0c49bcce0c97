import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from speech import Speech, Utterances


def main(steps=60):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(Speech(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    data = Utterances()
    mine = data.part(rank, world)
    shuffled = torch.Generator().manual_seed(7)  # the same on all ranks: neighbours in length meet in a step
    order, times = [], []
    for step in range(steps):
        began = time.perf_counter()
        if not order:
            order = torch.randperm(len(mine), generator=shuffled).tolist()
        at = mine[order.pop()]
        loss = F.cross_entropy(model(data.sound[at]), data.who[at])
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
