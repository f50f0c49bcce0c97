# Which plant does this leaf belong to?  A small convolutional net.
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from photos import LeafDataset, make_archive

BATCH = 16
STEPS = 60


def conv(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.BatchNorm2d(o), nn.ReLU())


def main():
    torch.manual_seed(0)
    net = nn.Sequential(conv(3, 24), conv(24, 32, 2), conv(32, 48, 2), conv(48, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    data = LeafDataset(make_archive(120), BATCH * STEPS)
    loader = DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=0)

    marks = []
    for images, labels in loader:
        loss = F.cross_entropy(net(images), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        marks.append(time.perf_counter())

    ms = [(b - a) * 1e3 for a, b in zip(marks, marks[1:])][3:]
    print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")


if __name__ == "__main__":
    main()
