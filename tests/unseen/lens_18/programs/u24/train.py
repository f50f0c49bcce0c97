import os
import statistics
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F


class Inpaint(nn.Module):
    """Fills the missing corner of a picture."""

    def __init__(self, width=48):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 3, 3, padding=1),
        )

    def forward(self, x):
        return self.net(x)


def checkpoint(folder, model, optimizer, step, every=30):
    if (step + 1) % every:
        return
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, os.path.join(folder, f"step{step + 1}.pt"))


def main(steps=60, batch=32, side=24):
    torch.manual_seed(0)
    model = Inpaint()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    ramp = torch.linspace(0, 3, side)
    pictures = torch.sin(torch.rand(640, 3, 1, 1) * 4 * (ramp.view(-1, 1) + ramp))
    holed = pictures.clone()
    holed[:, :, side // 2 :, side // 2 :] = 0
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for step in range(steps):
            began = time.perf_counter()
            picked = torch.randint(0, 640, (batch,))
            loss = F.l1_loss(model(holed[picked]), pictures[picked])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            checkpoint(folder, model, optimizer, step)
            times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
