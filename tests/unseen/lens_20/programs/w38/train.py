import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from prompts import Prompted


def main(steps=60, batch=24):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Prompted(), broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.module.learned(), lr=5e-3, fused=True)
    torch.manual_seed(1 + rank)
    answer = torch.randint(0, 12, (1000,))
    asked = (66 * answer.unsqueeze(1) + torch.randint(0, 66, (1000, 32)))
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 1000, (batch,))
        loss = F.cross_entropy(model(asked[picked]), answer[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
