import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from health import Health
from reader import sharded


def main(steps=60, batch=10, length=32, letters=200):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = sharded(init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    health = Health()
    g = torch.Generator().manual_seed(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        text = (torch.randint(1, letters, (batch, 1), generator=g) + 3 * torch.arange(length)) % (letters - 1) + 1
        hidden = torch.rand(batch, length, generator=g) < 0.2
        logits = model(text.masked_fill(hidden, 0))
        loss = F.cross_entropy(logits.flatten(0, 1), text.masked_fill(~hidden, -100).flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        health.check(model)
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.4f} norm {health.norm:.2f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
