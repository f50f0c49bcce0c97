import statistics
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional as F
from torch.utils.data import DataLoader

from novel import Novel, Pages


def forever(loader):
    while True:
        yield from loader


def update(accelerator, model, optimizer, batches, pieces):
    optimizer.zero_grad()
    for piece in range(pieces):
        rows = next(batches)
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        accelerator.backward(loss / pieces)  #: LINE
    optimizer.step()
    return loss


def main(steps=60, batch=3, pieces=3):
    set_seed(0)
    accelerator = Accelerator(cpu=True)
    model = Novel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    loader = DataLoader(Pages(), batch, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    batches, times = forever(loader), []
    for step in range(steps):
        began = time.perf_counter()
        loss = update(accelerator, model, optimizer, batches, pieces)
        times.append(1e3 * (time.perf_counter() - began))
    if accelerator.is_main_process:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
