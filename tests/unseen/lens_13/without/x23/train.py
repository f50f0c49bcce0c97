import gc
import statistics
from time import perf_counter

import torch

from demand import Demand, history


def main(steps=64, batch=14, window=48):
    torch.manual_seed(0)
    table = history()
    model = Demand(window=window)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    times = []
    for step in range(steps):
        begin = perf_counter()
        at = torch.randint(len(table) - window, (batch, 1))
        x, y = table[at + torch.arange(window)], table[at.squeeze(1) + window]
        loss = torch.nn.functional.smooth_l1_loss(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        value = loss.item()
        del x, y, loss
        times.append(1000 * (perf_counter() - begin))
    times = times[3:]
    print(f"loss {value:.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
