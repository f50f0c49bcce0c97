import statistics
import time

import torch
from torch.nn import functional as F

from claims import Claims, split


def main(steps=60, batch=384, rate=2e-3):
    torch.manual_seed(0)
    model = Claims()
    optimizer = torch.optim.AdamW(split(model), lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    forms = torch.randn(12000, 48)
    cost = forms[:, :6].square().sum(1).log1p()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 12000, (batch,))
        loss = F.smooth_l1_loss(model(forms[picked]), cost[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
