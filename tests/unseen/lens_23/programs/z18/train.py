import statistics
import tempfile
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import settings


def fruits(count=24000, bands=64):
    """Colours of a tomato in 64 bands, and its sugar, acid and firmness."""
    inside = torch.rand(count, 3)
    return TensorDataset((inside @ torch.randn(3, bands)).sin() + 0.1 * torch.randn(count, bands), inside)


def network(bands=64, width=640):
    return nn.Sequential(
        nn.Linear(bands, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 3),
    )


def main(steps=60, batch=288):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loader = DataLoader(fruits(), batch_size=batch, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        live = settings.Settings(settings.write(folder))
        began = time.perf_counter()
        for step, (colours, inside) in zip(range(steps), loader):
            now = live.training()
            if now["stop"]:
                break
            for group in optimizer.param_groups:
                group["lr"], group["weight_decay"] = now["lr"], now["weight_decay"]
            loss = F.smooth_l1_loss(model(colours), inside, beta=now["smooth"])
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), now["clip"])
            optimizer.step()
            optimizer.zero_grad()
            end = time.perf_counter()
            times.append(1e3 * (end - began))
            began = end
    accelerator.print(f"loss {loss.item():.6f} after {len(times)} steps")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
