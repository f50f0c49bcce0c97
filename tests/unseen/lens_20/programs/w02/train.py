import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from doubles import Doubles, split


def main(steps=60, batch=384):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = split(Doubles(), mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, foreach=True)
    maker = torch.randint(0, 100, (3000,))
    sound = torch.randn(100, 256)[maker] + torch.randn(3000, 256)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 3000, (batch,))
        loss = F.cross_entropy(model(sound[picked]), maker[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
