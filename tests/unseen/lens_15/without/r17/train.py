import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from distributed import mean_over_ranks, setup
from ranker import Ranker


def clicks(rank, batch=256, length=20):
    g = torch.Generator().manual_seed(10 + rank)
    while True:
        user = torch.randint(4000, (batch,), generator=g)
        past = torch.randint(6000, (batch, length), generator=g)
        item = torch.randint(6000, (batch,), generator=g)
        clicked = ((user + item + past[:, 0]) % 3 == 0).float()
        yield user, past, item, clicked


def main(steps=60):
    rank, world, _ = setup()
    torch.manual_seed(0)
    model = DistributedDataParallel(Ranker())
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    source = clicks(rank)
    times = []
    for step in range(steps):
        start = time.perf_counter()
        user, past, item, clicked = next(source)
        loss = F.binary_cross_entropy_with_logits(model(user, past, item), clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            mean = mean_over_ranks(loss)
            if rank == 0:
                print(f"step {step + 1}: loss {mean:.4f}")
        times.append(1e3 * (time.perf_counter() - start))
    if rank == 0:
        times = times[3:]
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
