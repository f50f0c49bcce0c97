import statistics
import time

import torch
from torch.nn import functional as F

from orders import Orders
from rates import Rates


def main(steps=60, batch=256):
    torch.manual_seed(0)
    model = Orders()
    optimizer = Rates(model, 1e-3)
    table = torch.randn(20000, 64)
    goal = table[:, :8].sum(1).tanh()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 20000, (batch,))
        loss = F.mse_loss(model(table[picked]), goal[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
