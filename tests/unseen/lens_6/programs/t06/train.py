"""A click model; the log tells how each example of a batch went."""
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

from kernels import Tower
from logs import open_log

STEPS = 60
BATCH = 640

log = open_log("clicks")


class Clicks(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.out = nn.Linear(32, 48), nn.Linear(48, 1)

    def forward(self, x):
        return self.out(torch.relu(Tower.apply(self.wide(x))))


class Trainer:
    def __init__(self):
        self.model = Clicks()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.generator = torch.Generator().manual_seed(5)

    def batch(self):
        x = torch.randn(BATCH, 32, generator=self.generator)
        return x, (x[:, 0] > 0).float()

    def step(self, number):
        x, y = self.batch()
        losses = F.binary_cross_entropy_with_logits(self.model(x).squeeze(1), y, reduction="none")
        self.optimizer.zero_grad()
        losses.mean().backward()
        self.optimizer.step()
        self.report(number, losses.detach())

    def report(self, number, losses):
        log.info("step %d mean loss %.4f", number, losses.mean())
        for index, loss in enumerate(losses.tolist()):
            log.info("step %d example %d loss %.4f", number, index, loss)  #: LINE


def main():
    torch.manual_seed(0)
    trainer = Trainer()
    times, last = [], time.perf_counter()
    for number in range(STEPS):
        trainer.step(number)
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
