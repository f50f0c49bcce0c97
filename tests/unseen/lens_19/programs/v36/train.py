import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from talk import Talk


def share(parameters):
    """The mean of the gradients of all ranks, in one message."""
    grads = [p.grad for p in parameters]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for g, mean in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(mean.view_as(g))


def main(steps=60, batch=192, words=8000):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Talk(words)
    body = list(model.body.parameters())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    text = torch.randint(0, words, (30000,), generator=torch.Generator().manual_seed(rank))
    windows = text.unfold(0, 16, 1)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        rows = windows[torch.randint(0, len(windows), (batch,))]
        loss = F.cross_entropy(model(rows[:, :-1]), rows[:, -1])
        optimizer.zero_grad()
        loss.backward()
        share(body)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
