import statistics
from time import perf_counter

import torch
from torch import nn

from augment import augment


class SmallNet(nn.Module):
    def __init__(self, classes=10, c=20):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1)) for _ in range(3)
        )
        self.head = nn.Linear(c, classes)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean((2, 3)))


def main(steps=64, batch=96):
    torch.manual_seed(2)
    images = torch.rand(4000, 3, 32, 32)
    labels = torch.randint(10, (4000,))
    model = SmallNet()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    order = torch.randperm(len(images))
    times, at = [], 0
    for step in range(steps):
        begin = perf_counter()
        if at + batch > len(order):
            order, at = torch.randperm(len(images)), 0
        pick = order[at:at + batch]
        at += batch
        x, y = augment(images[pick]), labels[pick]
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        times.append(1e3 * (perf_counter() - begin))
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
