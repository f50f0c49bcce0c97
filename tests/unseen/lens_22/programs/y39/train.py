import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from split import split
from tales import Teller


def main(steps=60, batch=6, length=64, words=800):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = split(Teller(words), mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, foreach=False)
    text = (torch.randn(40000).cumsum(0).abs() * 20).long() % words
    times = []
    for step in range(steps):
        began = time.perf_counter()
        starts = torch.randint(0, len(text) - length - 1, (batch, 1))
        piece = text[starts + torch.arange(length + 1)]
        scores = model(piece[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), piece[:, 1:].flatten())
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
