import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from shard import build


def main(steps=60, micro=2, size=4, length=25, words=512):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = build(dist.get_world_size())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    g = torch.Generator().manual_seed(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        for part in range(micro):
            start = torch.randint(0, words, (size, 1), generator=g)
            tokens = (start + 3 * torch.arange(length)) % words
            model.set_requires_gradient_sync(part == micro - 1)
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            (loss / micro).backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
