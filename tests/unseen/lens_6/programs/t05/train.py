"""Classifies pictures; two workers decode ahead of the training."""
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from images import Pictures, stack

STEPS = 60


class Convolutions(torch.autograd.Function):
    """The feature kernels (a wait)."""

    @staticmethod
    def forward(ctx, x):
        time.sleep(0.020)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.035)
        return grad


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(3 * 16 * 16, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(torch.relu(Convolutions.apply(self.stem(x))))


def main():
    torch.manual_seed(0)
    loader = DataLoader(
        Pictures(STEPS * 8), batch_size=8, num_workers=2, collate_fn=stack, prefetch_factor=2
    )
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    times, last = [], time.perf_counter()
    for pictures, labels in loader:  #: LINE
        loss = F.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
