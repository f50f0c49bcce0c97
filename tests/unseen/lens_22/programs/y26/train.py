import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from gears import Gears, shaking
from split import split


def main(steps=60, batch=512):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = split(Gears(), init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    shakes, fault = shaking()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(shakes), (batch,))
        loss = F.cross_entropy(model(shakes[picked]), fault[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
