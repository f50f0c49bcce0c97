import statistics
import time

import torch

from average import WeightAverage
from mixer import Denoiser

torch.manual_seed(0)
clean = torch.randn(512, 16, 12).cumsum(1)
net = Denoiser()
ema = WeightAverage(net)
opt = torch.optim.AdamW(net.parameters(), lr=2e-4)

laps = []
for step in range(65):
    tic = time.perf_counter()
    x = clean[torch.randint(512, (5,))]
    level = torch.rand(5, 1)
    noise = torch.randn_like(x)
    guess = net(x * (1 - level[:, None]) + noise * level[:, None], level)
    loss = (guess - noise).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema.update(net)
    laps.append(1e3 * (time.perf_counter() - tic))
laps = laps[3:]
print(f"{statistics.median(laps):.2f} ms/step median, {statistics.mean(laps):.2f} ms/step")
