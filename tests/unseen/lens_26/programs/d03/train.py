import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from logbook import TAGS, Tagger, write
from scores import Confusion


def main(steps=60, batch=32):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Tagger(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    text, tags = write(seed=rank)
    confusion = Confusion(len(TAGS))
    times, began = [], time.perf_counter()
    for step in range(steps):
        picked = torch.randint(0, len(text), (batch,))
        words, truth = text[picked], tags[picked]
        scores = model(words)
        loss = F.cross_entropy(scores.flatten(0, 1), truth.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        confusion.update(scores, truth)
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    if rank == 0:
        print(f"loss {loss.item():.5f}, F1 {confusion.f1().mean().item():.3f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
