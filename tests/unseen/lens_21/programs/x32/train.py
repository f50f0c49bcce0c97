import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from lenses import Sharpener, pictures
from look import Look


def main(steps=60, batch=10):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    look = Look()
    model = DistributedDataParallel(Sharpener(), gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    torch.manual_seed(1 + rank)
    blurred, sharp = pictures()
    times = []
    for step in range(steps):
        start = time.perf_counter()
        picked = torch.randint(0, len(sharp), (batch,))
        made = model(blurred[picked])
        loss = F.l1_loss(made, sharp[picked]) + 0.5 * look(made, sharp[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
