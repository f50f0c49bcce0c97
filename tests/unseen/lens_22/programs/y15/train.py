import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from brook import Averaged, Brook, record


def main(steps=60, batch=72):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    past, ahead = record()
    model = DDP(Brook(), broadcast_buffers=False, gradient_as_bucket_view=True)
    averaged = Averaged(model.module)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    draw = torch.Generator().manual_seed(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(past), (batch,), generator=draw)
        loss = F.mse_loss(model(past[picked]), ahead[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averaged.update(model.module)
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
