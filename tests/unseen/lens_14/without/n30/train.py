import logging
import statistics
import time

import torch

from forecast import Forecaster

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
log = logging.getLogger("train")


def windows(series, batch, length=384, horizon=48):
    starts = torch.randint(series.shape[1] - length - horizon, (batch,))
    rows = torch.randint(series.shape[0], (batch,))
    index = starts[:, None] + torch.arange(length + horizon)
    both = series[rows[:, None], index]
    return both[:, :length], both[:, length:]


def main(steps=62):
    torch.manual_seed(0)
    t = torch.arange(20000) / 24.0
    series = torch.sin(t * torch.rand(40, 1) * 3) + 0.2 * torch.randn(40, 20000)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        past, future = windows(series, 32)
        loss = torch.nn.functional.l1_loss(model(past), future)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            log.info("step %d loss %.4f", step, loss.item())
        times.append(1e3 * (time.perf_counter() - begin))
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
