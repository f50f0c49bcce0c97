"""A trainer with callbacks; its network runs on the device of device.py."""
import random
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

from callbacks import Accuracy, Augmentation
from device import Kernels, Remote

STEPS = 64


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(48, 96), nn.Linear(96, 8)

    def forward(self, x):
        x = Kernels.apply(torch.relu(self.stem(x)), 10, 14)
        return self.head(Kernels.apply(x, 8, 12))


class Trainer:
    def __init__(self, callbacks):
        self.callbacks = callbacks
        self.model = Network()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.random, self.generator = random.Random(2), torch.Generator().manual_seed(2)
        self.policy = 1.0

    def draw_policy(self, seconds):
        time.sleep(seconds)
        return self.random.uniform(0.9, 1.1)

    def batch(self):
        x = torch.randn(64, 48, generator=self.generator)
        return (x * self.policy).as_subclass(Remote), x[:, :8].argmax(1)

    def fit(self, steps):
        times, last = [], time.perf_counter()
        for step in range(steps):
            x, labels = self.batch()
            logits = self.model(x)
            loss = F.cross_entropy(logits, labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            for callback in self.callbacks:
                callback.on_step_end(self, step, logits.detach(), labels)
            now = time.perf_counter()
            times.append((now - last) * 1000)
            last = now
        for callback in self.callbacks:
            callback.on_end(self)
        return times


def main():
    torch.manual_seed(0)
    times = Trainer([Accuracy(), Augmentation(0.022)]).fit(STEPS)
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
