import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from sentences import BucketedBatches, sentences
from tagger import Tagger


def main(steps=60, batch=20):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(Tagger())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    times, start = [], time.perf_counter()
    for step, ids in enumerate(BucketedBatches(sentences(), batch, rank, world)):
        tags = (ids % 17).masked_fill(ids == 0, -100)
        loss = F.cross_entropy(model(ids).flatten(0, 1), tags.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        end = time.perf_counter()
        times.append(1e3 * (end - start))
        start = end
        if step + 1 == steps:
            break
    if rank == 0:
        times = times[3:]
        print(f"loss {loss.item():.3f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
