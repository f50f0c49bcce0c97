import statistics
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from satellites import SHAPE, Fields, pack


def main(steps=60, batch=24, crops=5):
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        pack(folder, crops=crops)
        fields = Fields(folder)
        loader = DataLoader(fields, batch, shuffle=True, drop_last=True)
        model = nn.Sequential(
            nn.Conv2d(SHAPE[0], 48, 3, padding=1), nn.ReLU(), nn.Conv2d(48, 96, 3, padding=1), nn.ReLU(),
            nn.Conv2d(96, 96, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(96, 128, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, crops),
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        stamps = [time.perf_counter()]
        for step, (pixels, crop) in zip(range(steps), loader):
            scores = model(pixels.view(-1, *SHAPE).float().div_(128).sub_(1))
            loss = F.cross_entropy(scores, crop)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            stamps.append(time.perf_counter())
        fields.close()
    times = [1e3 * (b - a) for a, b in zip(stamps, stamps[1:])][3:]
    print(f"loss {loss.item():.6f} after {len(stamps) - 1} steps")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")


if __name__ == "__main__":
    main()
