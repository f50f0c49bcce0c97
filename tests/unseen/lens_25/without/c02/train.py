import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from flights import ColumnMixer, Flights, schedule


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=80)
    options = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    flights = Flights(schedule())
    sampler = DistributedSampler(flights, shuffle=True, seed=3)
    loader = DataLoader(flights, batch_size=options.batch, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(ColumnMixer(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)

    times, began = [], time.perf_counter()
    for step, (inputs, late) in zip(range(options.steps), loader):
        loss = F.huber_loss(model(inputs), late)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now

    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
