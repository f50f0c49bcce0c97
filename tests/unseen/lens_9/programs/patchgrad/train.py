# the distributed training loop of the tutorial, on patches of images
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

from mixer import mixer
from sync import average_gradients, broadcast_model


def run(rank, size):
    torch.manual_seed(1234 + rank)
    model = mixer()
    broadcast_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    bag = torch.randn(300, 36, 75)
    target = torch.randint(0, 10, (300,))
    times, last = [], time.perf_counter()
    for step in range(60):
        pick = torch.randint(0, 300, (72,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(bag[pick]), target[pick])
        loss.backward()
        average_gradients(model)
        optimizer.step()
        t = time.perf_counter()
        times.append((t - last) * 1e3)
        last = t
    if rank == 0:
        used = times[3:]
        print(f"{statistics.median(used):.2f} ms/step median, {statistics.fmean(used):.2f} ms/step", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    run(dist.get_rank(), dist.get_world_size())
    dist.barrier()
    dist.destroy_process_group()
