"""Trains the stack of model.py; the log level is INFO."""
import logging
import statistics
import time

import torch

from model import Stack

STEPS = 60
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
logger = logging.getLogger("train")


def train_step(model, optimizer, x, y, step):
    loss = (model(x).squeeze(1) - y).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    for name, p in model.named_parameters():
        logger.debug(f"step {step} {name} grad {p.grad}")  #: LINE
    optimizer.step()
    return loss


def main():
    torch.manual_seed(0)
    model = Stack()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(6)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(64, 48, generator=generator)
        loss = train_step(model, optimizer, x, x[:, 0], step)
        if step % 20 == 0:
            logger.info("step %d loss %.4f", step, loss)
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
