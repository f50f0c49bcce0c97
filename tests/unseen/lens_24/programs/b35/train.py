import statistics
import time

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from engines import Engines, Listener, pictures


def endless(loader):
    while True:
        yield from loader


def main(steps=60, batch=32):
    accelerator = Accelerator(cpu=True)
    set_seed(4)
    engines, model = Engines(), Listener()
    loader = DataLoader(engines, batch_size=None, sampler=BatchSampler(RandomSampler(engines), batch, drop_last=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    model, optimizer = accelerator.prepare(model, optimizer)
    torch.manual_seed(accelerator.process_index)
    batches, times = endless(loader), []
    for step in range(steps):
        began = time.perf_counter()
        waves, fault = next(batches)
        loss = F.cross_entropy(model(pictures(accelerator, waves)), fault)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))
    accelerator.print(f"loss {loss.item():.5f}")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.wait_for_everyone()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
