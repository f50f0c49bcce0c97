import statistics
import time

import torch
from torch.nn import functional as F

from adapters import adapt
from weather import Forecast, stations


def main(steps=60, batch=160):
    torch.manual_seed(0)
    today, tomorrow = stations()
    model = adapt(Forecast(), rank=8)
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=2e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(len(today), (batch,))
        loss = F.mse_loss(model(today[picked]), tomorrow[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
