import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from heights import Weather


def observe(count=20000, side=1536, around=12):
    made = torch.Generator().manual_seed(9)
    place = torch.randint(0, side - around, (count, 2), generator=made)
    air = torch.randn(count, 16, generator=made)
    rain = (air[:, 0] * air[:, 1]).relu() + 0.1 * torch.rand(count, generator=made)
    return place, air, rain


def main(steps=60, batch=768):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    place, air, rain = (whole[rank::world].contiguous() for whole in observe())
    weather = Weather()
    DDP._set_params_and_buffers_to_ignore_for_model(weather, ["land", "near"])
    model = DDP(weather, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        at = step * batch % (len(rain) - batch)
        cut = slice(at, at + batch)
        loss = F.smooth_l1_loss(model(place[cut], air[cut]), rain[cut])
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
