import math
import statistics
import time

import torch
from torch.nn import functional as F

from alloys import alloy_net, alloys
from settings import Settings


def main(settings):
    torch.manual_seed(0)
    torch.autograd.set_detect_anomaly(settings.check_backward)
    shares, truth = alloys()
    net = alloy_net(shares.shape[1], settings.width, settings.depth)
    optimizer = torch.optim.AdamW(net.parameters(), lr=settings.rate, fused=True)
    times = []
    for step in range(settings.steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(shares), (settings.batch,))
        loss = F.huber_loss(net(shares[picked]), truth[picked])
        if settings.check_loss and not math.isfinite(loss.item()):
            raise FloatingPointError(f"loss is {loss.item()} in step {step}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main(Settings())
