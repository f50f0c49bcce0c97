import contextlib
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from depth import Depth, rooms


def main(steps=60, batch=16, pieces=3):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Depth(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    picture, depth = rooms(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        for piece in range(pieces):
            picked = torch.randint(0, len(depth), (batch,))
            with contextlib.nullcontext() if piece == pieces - 1 else model.no_sync():
                loss = F.l1_loss(model(picture[picked]), depth[picked]) / pieces
                loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
