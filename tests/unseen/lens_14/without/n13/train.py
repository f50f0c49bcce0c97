import statistics
import time

import torch
from torch import nn

from speech import Commands


def block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))


class Spotter(nn.Module):
    def __init__(self, classes=12):
        super().__init__()
        self.features = nn.Sequential(
            block(1, 24), block(24, 24), nn.MaxPool2d(2), block(24, 48), nn.MaxPool2d(2), block(48, 64)
        )
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(64, classes))

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


class Meter:
    def __init__(self, skip=3):
        self.skip, self.values, self.last = skip, [], time.perf_counter()

    def tick(self):
        now = time.perf_counter()
        self.values.append(1e3 * (now - self.last))
        self.last = now

    def __str__(self):
        v = self.values[self.skip:]
        return f"{statistics.median(v):.2f} ms/step median, {statistics.mean(v):.2f} ms/step"


def train(steps=62, batch=12):
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(Commands(), batch_size=batch, shuffle=True)
    net = Spotter()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    meter = Meter()
    for step, (mel, label) in zip(range(steps), loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(mel), label, label_smoothing=0.05)
        loss.backward()
        optimizer.step()
        meter.tick()
    print(meter)


train()
