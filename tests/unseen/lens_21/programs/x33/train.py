import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from clouds import Share, scans
from shape import Shape


def main(steps=60, batch=40):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(Shape(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    torch.manual_seed(1 + dist.get_rank())
    batches = iter(Share(scans(), batch))
    times = []
    for step in range(steps):
        start = time.perf_counter()
        points, whose, kinds = next(batches)
        loss = F.cross_entropy(model(points, whose, batch), kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
