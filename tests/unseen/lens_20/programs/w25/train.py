import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from choir import Choir
from shard import shard


def main(steps=60, batch=20, moments=64):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = shard(Choir(), dist.get_world_size())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    torch.manual_seed(1 + rank)
    voice = torch.randint(0, 6, (500, moments))
    sound = torch.randn(500, moments, 40) + voice.unsqueeze(2) / 3
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 500, (batch,))
        loss = F.cross_entropy(model(sound[picked]).flatten(0, 1), voice[picked].flatten())
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
