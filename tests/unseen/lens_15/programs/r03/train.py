import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from gpt import GPT
from parallel import shard


def batches(rank, count=6, length=65, vocab=1000):
    g = torch.Generator().manual_seed(100 + rank)
    corpus = torch.randint(vocab, (60000,), generator=g)
    while True:
        starts = torch.randint(len(corpus) - length, (count,), generator=g)
        rows = corpus[starts[:, None] + torch.arange(length)]
        yield rows[:, :-1], rows[:, 1:]


def main(steps=60):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = shard(GPT(), dist.get_world_size())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    source = batches(rank)
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        ids, labels = next(source)
        logits = model(ids)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - begin))
    if rank == 0:
        times = times[3:]
        print(f"loss {loss.item():.3f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
