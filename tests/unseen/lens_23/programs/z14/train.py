import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from hearts import Hearts, collate, network


def batches(loader, sampler, steps):
    epoch = done = 0
    while done < steps:
        sampler.set_epoch(epoch)
        for batch in loader:
            if done == steps:
                return
            yield batch
            done += 1
        epoch += 1


def main(steps=60, batch=32):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = Hearts()
    sampler = DistributedSampler(data, drop_last=True)
    loader = DataLoader(data, batch_size=batch, sampler=sampler, collate_fn=collate, drop_last=True)
    model = DistributedDataParallel(network(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times, began = [], time.perf_counter()
    for leads, rhythms in batches(loader, sampler, steps):
        loss = F.cross_entropy(model(leads), rhythms)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f} after {len(times)} steps")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
