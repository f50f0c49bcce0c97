import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from ema import ModelEma
from mixer import Mixer, wings


def main(steps=60, batch=36):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    images, kinds = wings()
    model = DistributedDataParallel(Mixer(), broadcast_buffers=False, gradient_as_bucket_view=True)
    ema = ModelEma(model.module)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    torch.manual_seed(rank + 1)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(kinds), (batch,))
        loss = F.cross_entropy(model(images[picked]), kinds[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model.module)
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
