import statistics
import time

import torch
from torch.nn import functional as F

from control import Control


def main(steps=60, batch=128, span=8):
    torch.manual_seed(0)
    model = Control()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)
    logs = torch.randn(steps, span, batch, 16)
    wanted = logs[..., :4].cumsum(1).tanh()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        loss = F.mse_loss(model(logs[step]), wanted[step])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
