import statistics
import time

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.utils import set_seed
from torch.nn import functional as F
from torch.utils.data import DataLoader

from pairs import Pairs, TwoTowers


def everyones(accelerator, codes):
    """The codes of all ranks; gradients flow into our own alone."""
    rows = len(codes)
    gathered = accelerator.gather(codes.detach())
    first = accelerator.process_index * rows
    return torch.cat([gathered[:first], codes, gathered[first + rows:]])


def contrast(accelerator, a, b, scale):
    rows = len(a)
    target = torch.arange(rows) + accelerator.process_index * rows
    all_a, all_b = everyones(accelerator, a), everyones(accelerator, b)
    return (F.cross_entropy(scale * a @ all_b.T, target) + F.cross_entropy(scale * b @ all_a.T, target)) / 2


def main(steps=60, batch=288):
    accelerator = Accelerator(cpu=True, kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)])
    set_seed(0)
    model = TwoTowers()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loader = DataLoader(Pairs(), batch_size=batch, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    times = []
    while len(times) < steps:
        for smells, spices in loader:
            began = time.perf_counter()
            loss = contrast(accelerator, *model(smells, spices))
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            times.append(1e3 * (time.perf_counter() - began))
            if len(times) == steps:
                break
    if accelerator.is_main_process:
        print(f"last loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
