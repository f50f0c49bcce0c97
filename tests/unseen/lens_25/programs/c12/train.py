import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from runes import Alphabets, Prototypes


def main(steps=60, tasks=2):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    loader = DataLoader(Alphabets(), batch_size=tasks, shuffle=True)
    model = DistributedDataParallel(Prototypes(), gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)
    torch.manual_seed(70 + rank)

    times = []
    for step in range(steps):
        began = time.perf_counter()
        known, asked = next(iter(loader))
        loss = model(known, asked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))

    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
