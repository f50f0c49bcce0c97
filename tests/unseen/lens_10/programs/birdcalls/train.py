import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from clips import Clips


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Clips(320), batch_size=20, shuffle=True, drop_last=True)
    net = nn.Sequential(block(1, 8), block(8, 16), block(16, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 8))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    times, step = [], 0
    last = time.perf_counter()
    while step < 64:
        for mel, species in loader:
            loss = F.cross_entropy(net(mel), species)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            now = time.perf_counter()
            times.append((now - last) * 1e3)
            last = now
            if step == 64:
                break
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
