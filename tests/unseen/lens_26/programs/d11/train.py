import statistics
import time

import torch
from accelerate import Accelerator
from torch.nn import functional as F
from torch.utils.data import DataLoader

from rides import Clock, Rides, split, table


def main(steps=60, batch=384):
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    loader = DataLoader(Rides(table()), batch_size=batch, shuffle=True, drop_last=True, collate_fn=split)
    model = Clock()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    times, began = [], time.perf_counter()
    for step, (seen, minutes) in zip(range(steps), loader):
        loss = F.smooth_l1_loss(model(seen), minutes)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    accelerator.print(f"loss {loss.item():.5f}")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
