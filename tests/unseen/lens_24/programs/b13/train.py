import statistics
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional as F
from torch.utils.data import DataLoader

from bridges import Shake, Sway, Weigh


def main(steps=60, batch=112):
    accelerator = Accelerator(cpu=True)
    set_seed(3)
    loader = DataLoader(Sway(), batch, shuffle=True, drop_last=True, collate_fn=Shake())
    model = Weigh()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    stamps = [time.perf_counter()]
    for step, (sway, load) in zip(range(steps), loader):
        loss = F.mse_loss(model(sway), load)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        stamps.append(time.perf_counter())
    times = [1e3 * (b - a) for a, b in zip(stamps, stamps[1:])][3:]
    accelerator.print(f"loss {loss.item():.6f} after {len(stamps) - 1} steps")
    accelerator.print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
