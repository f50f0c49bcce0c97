import statistics
import tempfile
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from dials import Dials


class Snow(nn.Module):
    """The next depth of the snow from the weather of two weeks."""

    def __init__(self, weather=24, width=224):
        super().__init__()
        self.read = nn.GRU(weather, width, batch_first=True)
        self.say = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, days):
        return self.say(self.read(days)[0][:, -1]).squeeze(1)


def winters(count=9000, days=14, weather=24):
    past = torch.randn(count, days, weather)
    return TensorDataset(past, (past.mean(1) @ torch.randn(weather)).tanh())


def main(steps=60, batch=96):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(2)
    model = Snow()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-4, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(winters(), batch, shuffle=True, drop_last=True))
    times = []
    with tempfile.TemporaryDirectory() as folder:
        dials = Dials.fresh(folder)
        began = time.perf_counter()
        for step, (days, depth) in enumerate(loader):
            if step == steps:
                break
            turned = dials.current()
            for group in optimizer.param_groups:
                group["lr"] = turned["lr"]
            days = days + turned["noise"] * torch.randn_like(days)
            loss = F.mse_loss(model(days), depth)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            times.append(1e3 * (time.perf_counter() - began))
            began = time.perf_counter()
    accelerator.print(f"loss {loss.item():.6f} after {len(times)} steps")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
