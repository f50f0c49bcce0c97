import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from stopwatch import Stopwatch
from tagger import Catalogue, Tagger


def average(model, world):
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)
    flat /= world
    for p, g in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
        p.grad.copy_(g.view_as(p))


def main(steps=60, batch=48):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    catalogue, watch = Catalogue(rank + 1), Stopwatch()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        (drums, drum_tags), (keys, key_tags) = catalogue.draw(batch)
        optimizer.zero_grad()
        with watch.part("drums"):
            loss = F.binary_cross_entropy_with_logits(model.drums(drums), drum_tags, reduction="sum") / batch
            loss.backward()
        with watch.part("keys"):
            loss = F.binary_cross_entropy_with_logits(model.keys(keys), key_tags, reduction="sum") / batch
            loss.backward()
        with watch.part("update"):
            average(model, world)
            optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(watch.table())
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
