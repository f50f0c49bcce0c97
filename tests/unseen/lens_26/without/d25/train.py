import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from pairs import Pairs, catalogue, contrast


def main(steps=60, batch=640):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    scans, words = (whole[rank::world].contiguous() for whole in catalogue())
    model = DistributedDataParallel(Pairs(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    order, times = torch.randperm(len(scans)), []
    for step in range(steps):
        began = time.perf_counter()
        at = step * batch % (len(order) - batch)
        picked = order[at : at + batch]
        loss = contrast(*model(scans[picked], words[picked]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
