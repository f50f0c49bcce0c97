import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from perfume import Perfume
from plan import split


def main(steps=60, batch=560):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = split(Perfume(), mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=False)
    scents = torch.rand(2000, 150)
    words = (scents[:, :60] + scents[:, 60:120] > 1.2).float()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 2000, (batch,))
        loss = F.binary_cross_entropy_with_logits(model(scents[picked]), words[picked])
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
