"""A scorer of records; memory is freed at the end."""
import gc
import statistics
import time

import torch
from torch import nn

from kernels import Layers
from records import load

STEPS = 60


def free_memory():
    gc.collect()


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.EmbeddingBag(16, 64), nn.Linear(64, 1)

    def forward(self, tags):
        return self.out(Layers.apply(self.embed(tags)))


class Trainer:
    def __init__(self):
        self.records = []
        self.net = Scorer()
        self.optimizer = torch.optim.Adagrad(self.net.parameters(), lr=0.01)

    def step(self, number):
        chosen = self.records[number * 256 : (number + 1) * 256]
        tags = torch.tensor([record.tags for record in chosen])
        loss = (self.net(tags).squeeze(1) - tags[:, 0].float()).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        del tags
        return loss.detach()


def main():
    torch.manual_seed(0)
    trainer = Trainer()
    gc.freeze()
    trainer.records = load(20_000)
    times, last = [], time.perf_counter()
    for number in range(STEPS):
        loss = trainer.step(number)
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    free_memory()
    print(f"loss {loss:.4f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
