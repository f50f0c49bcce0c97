import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from machine import Machine


class Vae(nn.Module):
    """Draws glyphs from few numbers."""

    def __init__(self, pixels=576, width=512, code=16):
        super().__init__()
        self.enter = nn.Sequential(nn.Linear(pixels, width), nn.SiLU(), nn.Linear(width, 2 * code))
        self.leave = nn.Sequential(nn.Linear(code, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, pixels))

    def forward(self, x):
        mean, spread = self.enter(x).chunk(2, 1)
        drawn = self.leave(mean + torch.randn_like(mean) * (0.5 * spread).exp())
        apart = 0.5 * (mean.square() + spread.exp() - spread - 1).sum(1).mean()
        return F.mse_loss(drawn, x, reduction="none").sum(1).mean() + apart


def main(steps=60, batch=768):
    torch.manual_seed(0)
    model = Vae()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    glyphs = torch.rand(4000, 24, 24).cumsum(2).frac().flatten(1)
    machine = Machine()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        loss = model(glyphs[torch.randint(0, 4000, (batch,))])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        machine.note(step, loss.detach())
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {machine.rows[-1]['loss'].item():.4f}, at most {max(row['rss'] for row in machine.rows) // 1024 // 100 * 100} MB")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
