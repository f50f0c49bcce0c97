import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from fugue import Fugue, split


def tunes(count=1500, length=49, notes=128):
    start, leap = torch.randint(0, notes, (count, 1)), torch.randint(1, 5, (count, 1))
    wobble = torch.randint(0, 2, (count, length))
    return (start + leap * torch.arange(length) + wobble) % notes


def main(steps=60, batch=8):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    known = tunes()
    model = split(Fugue(), mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        tune = known[torch.randint(0, len(known), (batch,))]
        scores = model(tune[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), tune[:, 1:].flatten())
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
