import statistics
import time

import torch
from torch.nn import functional as F

from fields import Harvest, fields


def main(steps=60, batch=128):
    torch.manual_seed(0)
    model = Harvest()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    weather, soil, harvest = fields()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(soil), (batch,))
        loss = F.mse_loss(model(weather[picked], soil[picked]), harvest[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
