import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from tunes import Next, Triples, playlists


def main(steps=60, size=96):
    dist.init_process_group("gloo")
    torch.manual_seed(2)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    triples = Triples(playlists(), seed=100 + dist.get_rank())
    model = fully_shard(Next(), mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    stamps = [time.perf_counter()]
    for step in range(steps):
        loss = -F.logsigmoid(model(*triples.batch(size))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stamps.append(time.perf_counter())
    if dist.get_rank() == 0:
        times = [1e3 * (b - a) for a, b in zip(stamps, stamps[1:])][3:]
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
