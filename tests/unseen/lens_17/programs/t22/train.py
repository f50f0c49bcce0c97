import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from claims import CrossNet, rows
from common import parallel, update


def main(steps=60, batch=320):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = parallel(CrossNet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    g = torch.Generator().manual_seed(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        x, claims = rows(batch, g)
        loss = F.binary_cross_entropy_with_logits(model(x), claims)
        update(model, optimizer, loss)
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
