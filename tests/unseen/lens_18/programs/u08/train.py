import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from crops import Crops, epochs


class Calls(nn.Module):
    def __init__(self, width=72, kinds=8):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 32, stride=16), nn.ReLU(), nn.Conv1d(width, width, 9, padding=4), nn.ReLU(),
            nn.Conv1d(width, width, 9, padding=4), nn.ReLU(),
        )
        self.out = nn.Linear(width, kinds)

    def forward(self, x):
        return self.out(self.net(x.unsqueeze(1)).mean(2))


def main(steps=60, batch=32):
    torch.manual_seed(0)
    batches = epochs(Crops(), batch, workers=2)
    net = Calls()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        sound, kind = next(batches)
        loss = F.cross_entropy(net(sound), kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
