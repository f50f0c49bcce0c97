import statistics
import time

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

from rocks import Cores, confusion, network


def forever(batches, ranks):
    epoch = 0
    while True:
        ranks.set_epoch(epoch)
        yield from batches
        epoch += 1


def main(steps=60, batch=24, every=20):
    accelerator = Accelerator(cpu=True, kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)])
    torch.manual_seed(5)
    cores = Cores()
    ranks = DistributedSampler(cores, accelerator.num_processes, accelerator.process_index)
    batches = forever(DataLoader(cores, batch_size=None, sampler=BatchSampler(ranks, batch, drop_last=True)), ranks)
    model = network()
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), lr=1e-3, fused=True))
    times, began = [], time.perf_counter()
    for step in range(steps):
        spectra, mineral = next(batches)
        scores = model(spectra)
        loss = F.cross_entropy(scores, mineral)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        if step % every == every - 1:
            table = confusion(accelerator, scores.detach(), mineral)
            accelerator.print(f"step {step + 1}: {100 * table.diagonal().sum() / table.sum():.1f} % right")
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    if accelerator.is_main_process:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
