import statistics
import time

import torch

from dunes import Smoother, dunes
from scales import scale_loss


def run(steps=60, batch=32):
    torch.manual_seed(0)
    clean = dunes()
    net = Smoother()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        truth = clean[torch.randint(0, len(clean), (batch,))]
        guess = net(truth + 0.3 * torch.randn_like(truth))
        loss = scale_loss(guess, truth)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    run()
