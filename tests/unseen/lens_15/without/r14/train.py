import math
import statistics
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from recogniser import Recogniser


class Commands(Dataset):
    def __init__(self, count=640, samples=12000, classes=20):
        g = torch.Generator().manual_seed(0)
        self.labels = torch.randint(classes, (count,), generator=g)
        self.noise = torch.randn(samples, generator=g)
        self.time = torch.arange(samples) / 16000

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        label = self.labels[index]
        tone = torch.sin(2 * math.pi * (200 + 150 * label) * self.time)
        return tone + 0.3 * self.noise.roll(37 * index), label


def main(steps=60):
    torch.manual_seed(0)
    loader = DataLoader(Commands(), batch_size=16, shuffle=True, drop_last=True)
    model = Recogniser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    times = []
    begin = time.perf_counter()
    while len(times) < steps:
        for waves, labels in loader:
            loss = F.cross_entropy(model(waves), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            end = time.perf_counter()
            times.append(1e3 * (end - begin))
            begin = end
            if len(times) == steps:
                break
    times = times[3:]
    print(f"loss {loss.item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
