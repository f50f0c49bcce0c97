import statistics
import time

import torch
from accelerate import Accelerator
from torch.nn import functional as F
from torch.utils.data import DataLoader

from hearts import Beats, Cardiologist


def main(steps=60, batch=32):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    model = Cardiologist()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loader = DataLoader(Beats(), batch_size=batch, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    times, began = [], time.perf_counter()
    for step, (beats, kind) in zip(range(steps), loader):
        loss = F.cross_entropy(model(beats), kind)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    accelerator.print(f"loss {loss.item():.6f}")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
