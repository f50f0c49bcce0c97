import statistics
import time

import torch
from torch.nn import functional as F

from shop import Baskets, sell


def main(steps=60, batch=512):
    torch.manual_seed(0)
    basket, asked, bought = sell()
    model = Baskets()
    optimizer = torch.optim.Adam(model.net.parameters(), lr=1e-3, fused=True)
    rows = torch.optim.SparseAdam(model.articles.parameters(), lr=1e-3)
    order, times = torch.randperm(len(bought)), []
    for step in range(steps):
        began = time.perf_counter()
        at = step * batch % (len(order) - batch)
        picked = order[at : at + batch]
        loss = F.binary_cross_entropy_with_logits(model(basket[picked], asked[picked]), bought[picked])
        optimizer.zero_grad()
        rows.zero_grad()
        loss.backward()
        optimizer.step()
        rows.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
