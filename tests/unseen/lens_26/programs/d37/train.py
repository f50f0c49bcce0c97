import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from rocks import Rocks, spread


def drill(count=20000, numbers=64, kinds=16):
    made = torch.Generator().manual_seed(14)
    kind = torch.randint(0, kinds, (count,), generator=made)
    return torch.randn(kinds, numbers, generator=made)[kind] + 2 * torch.randn(count, numbers, generator=made), kind


def main(steps=60, batch=384):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    motors, kinds = drill()
    model = spread(Rocks(), mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=False)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        at = step * batch % (len(kinds) - batch)
        loss = F.cross_entropy(model(motors[at : at + batch]), kinds[at : at + batch], label_smoothing=0.05)
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
