import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from locks import Locks
from shards import Clipper, shard


def main(steps=60, batch=16, hours=48):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = shard(Locks())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    torch.manual_seed(rank)
    clip, times = Clipper(model), []
    for step in range(steps):
        began = time.perf_counter()
        levels = torch.randn(batch, hours + 1, 24).cumsum(1) / 5
        loss = F.smooth_l1_loss(model(levels[:, :-1]), levels[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        clip(step)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f} norm {torch.stack(clip.norms).mean().item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
