import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from pairs import Both, Sharpness


def main(steps=60, batch=320, features=256):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Both(features), broadcast_buffers=False, gradient_as_bucket_view=True)
    sharpness = Sharpness()
    optimizer = torch.optim.AdamW([*model.parameters(), *sharpness.parameters()], lr=5e-4, fused=True)
    torch.manual_seed(1 + rank)
    things = torch.randn(4000, features)
    sketches = things.roll(1, 1) + 0.5 * torch.randn(4000, features)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 4000, (batch,))
        loss = sharpness(*model(sketches[picked], things[picked]))
        optimizer.zero_grad()
        loss.backward()
        sharpness.share()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f} sharpness {sharpness.log.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
