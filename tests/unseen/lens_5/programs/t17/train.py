"""Weather maps, packed with zlib on disk, unpacked by a thread ahead of the training."""

import statistics
import time

import torch
from torch import nn

from ahead import Ahead
from maps import pack_maps


class Tomorrow(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), nn.SiLU(), nn.Conv2d(24, 24, 3, padding=1), nn.SiLU(), nn.Conv2d(24, 3, 3, padding=1))

    def forward(self, today):
        return today + self.net(today)


def main():
    torch.manual_seed(0)
    folder = pack_maps("maps", days=24)
    model = Tomorrow()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    seconds = []
    source = Ahead(folder, batches=100, depth=3)
    t0 = time.perf_counter()
    for today, tomorrow in source:
        loss = nn.functional.mse_loss(model(today), tomorrow)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - t0)
        t0 = time.perf_counter()
    print(f"loss {loss.item():.4f}")
    print(f"{1e3 * statistics.median(seconds):.2f} ms/step median, {1e3 * statistics.mean(seconds):.2f} ms/step")


if __name__ == "__main__":
    main()
