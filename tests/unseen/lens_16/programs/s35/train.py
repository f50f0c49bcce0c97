import statistics
import time

import torch
from accelerate import Accelerator
from torch.nn import functional as F
from torch.utils.data import DataLoader

from separate import Mixtures, Separator


def endless(loader):
    while True:
        yield from loader


def main(steps=60, accumulate=4, batch=2):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    loader = DataLoader(Mixtures(), batch, shuffle=True, drop_last=True)
    model = Separator()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    times, began = [], time.perf_counter()
    for number, (mixed, parts) in enumerate(endless(loader), 1):
        loss = F.l1_loss(model(mixed), parts) / accumulate
        accelerator.backward(loss)  #: LINE
        if number % accumulate == 0:
            accelerator.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            optimizer.zero_grad()
            now = time.perf_counter()
            times.append(1e3 * (now - began))
            began = now
            if len(times) == steps:
                break
    accelerator.print(f"loss {accumulate * loss.item():.4f}")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")
    accelerator.end_training()


if __name__ == "__main__":
    main()
