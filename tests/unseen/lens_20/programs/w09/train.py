import contextlib
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from stars import Light, stars


def gradients(model, light, turns, parts=2):
    """Of a batch that memory does not hold at once."""
    lights, goals = light.chunk(parts), turns.chunk(parts)
    total = 0.0
    for index in range(parts):
        last = index == parts - 1
        with contextlib.nullcontext() if last else model.no_sync():
            loss = F.mse_loss(model(lights[index]), goals[index]) / parts
            loss.backward()
        total = total + loss.detach()
    return total


def main(steps=60, batch=96):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Light(), broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    torch.manual_seed(1 + rank)
    light, turns = stars()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(turns), (batch,))
        optimizer.zero_grad()
        loss = gradients(model, light[picked], turns[picked])
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
