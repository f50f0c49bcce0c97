import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from mixer import Mixer
from parallel import shard


def main(steps=60, batch=16):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = shard(Mixer(), dist.get_world_size())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    g = torch.Generator().manual_seed(rank)
    centres = torch.randn(100, 3, 1, 1, generator=torch.Generator().manual_seed(9))
    times = []
    for step in range(steps):
        began = time.perf_counter()
        kinds = torch.randint(0, 100, (batch,), generator=g)
        pictures = centres[kinds] + 0.5 * torch.randn(batch, 3, 32, 32, generator=g)
        loss = F.cross_entropy(model(pictures), kinds, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
