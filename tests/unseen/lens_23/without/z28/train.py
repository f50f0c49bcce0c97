import statistics
import time

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

from scribe import Pages, Scribe, Tally


def main(steps=60, batch=14):
    accelerator = Accelerator(cpu=True, kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)])
    torch.manual_seed(0)
    pages = Pages()
    ranks = DistributedSampler(pages, accelerator.num_processes, accelerator.process_index)
    batches = DataLoader(pages, batch_size=None, sampler=BatchSampler(ranks, batch, drop_last=True))
    model = Scribe()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True))
    tally = Tally(accelerator)
    times, step = [], 0
    while step < steps:
        for strokes, signs in batches:
            began = time.perf_counter()
            scores = model(strokes)
            loss = F.cross_entropy(scores.flatten(0, 1), signs.flatten())
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            tally.add(scores, signs)
            times.append(1e3 * (time.perf_counter() - began))
            step += 1
            if step == steps:
                break
    right = tally.value()
    if accelerator.is_main_process:
        print(f"loss {loss.item():.6f}, right {100 * right:.2f} %")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
