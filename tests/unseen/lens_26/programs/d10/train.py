import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from cover import KINDS, UNKNOWN, Overlap, mapper, tiles


def main(steps=60, batch=12):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(mapper(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    views, truths = tiles(seed=dist.get_rank())
    overlap = Overlap(len(KINDS))
    times, began = [], time.perf_counter()
    for step in range(steps):
        picked = torch.randint(0, len(views), (batch,))
        view, truth = views[picked], truths[picked]
        scores = model(view)
        loss = F.cross_entropy(scores, truth, ignore_index=UNKNOWN)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        overlap.update(scores.detach().argmax(1), truth)
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    dist.all_reduce(overlap.counts)
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.5f}", *(f"{k} {v:.2f}" for k, v in zip(KINDS, overlap.result().tolist())))
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
