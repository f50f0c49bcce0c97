"""A small regression with a log: one record a step, details on demand."""
import logging
import os
import statistics
import tempfile
import time

import torch
from torch import nn

from setup_log import configure

STEPS = 60
log = logging.getLogger("regression")


def main():
    torch.manual_seed(0)
    configure(os.path.join(tempfile.mkdtemp(prefix="train_log_"), "train.log"))
    model = nn.Sequential(nn.Linear(512, 1024), nn.Tanh(), nn.Linear(1024, 512), nn.Tanh(), nn.Linear(512, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(288, 512, generator=generator)
        y = x[:, :1].sin()
        prediction = model(x)
        loss = (prediction - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        log.debug("prediction %s target %s", prediction, y)
        if log.isEnabledFor(logging.DEBUG):
            log.debug(f"gradients {[p.grad for p in model.parameters()]}")
        optimizer.step()
        log.info("step %d loss %.5f", step, loss.detach())  #: LINE
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
