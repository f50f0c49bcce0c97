import statistics
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader

from taxi import NUMBERS, Rides, rides

STEPS = 64


class Fare(nn.Module):
    def __init__(self, inputs, width=1400, depth=3):
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(depth))
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        h = self.first(x)
        for block in self.blocks:
            h = h + block(h)
        return self.last(h).squeeze(-1)


torch.manual_seed(0)
accelerator = Accelerator(cpu=True)
table = rides(6000)
table[NUMBERS] = table[NUMBERS].astype("float64")
loader = DataLoader(Rides(table), batch_size=64, shuffle=True, drop_last=True)
model = Fare(len(NUMBERS))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

ticks = [time.perf_counter()]
for x, fare in loader:
    loss = nn.functional.huber_loss(model(x), fare)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    ticks.append(time.perf_counter())
    if len(ticks) > STEPS:
        break
d = [1000 * (b - a) for a, b in zip(ticks, ticks[1:])][3:]
accelerator.print(f"{statistics.median(d):.2f} ms/step median, {statistics.mean(d):.2f} ms/step")
accelerator.end_training()
