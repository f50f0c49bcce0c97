import statistics
import time

import torch
from accelerate import Accelerator
from torch.nn import functional as F

from depth import DepthNet, Steady, rooms


def main(steps=60, batch=13):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    model = DepthNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    steady = Steady(accelerator.unwrap_model(model))
    g = torch.Generator().manual_seed(2)
    best, lowest, times = None, float("inf"), []
    for step in range(steps):
        began = time.perf_counter()
        pictures, depth = rooms(batch, g)
        loss = F.l1_loss(model(pictures), depth)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        steady.update(accelerator.unwrap_model(model))
        if loss.item() < lowest:
            best, lowest = steady.snapshot(), loss.item()
        times.append(1e3 * (time.perf_counter() - began))
    accelerator.print(f"best {lowest:.4f}, {len(best)} tensors kept")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
