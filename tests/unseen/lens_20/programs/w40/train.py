import statistics
import time

import torch
from torch.nn import functional as F

from knots import Feed, Knots, knot_net


def main(steps=60, batch=96):
    torch.manual_seed(0)
    feed = Feed(Knots(), batch)
    net = knot_net()
    optimizer = torch.optim.NAdam(net.parameters(), lr=1e-3, foreach=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        lines, crossings = feed.draw()
        loss = F.mse_loss(net(lines), crossings)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
