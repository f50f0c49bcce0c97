import os
import statistics
import tempfile
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from scans import Scans, write


class Finding(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU(),
        )
        self.out = nn.Linear(2 * width, 1)

    def forward(self, x):
        return self.out(self.net(x).mean((2, 3))).squeeze(1)


def main(steps=60, batch=24):
    set_seed(0)
    accelerator = Accelerator(cpu=True)
    net = Finding()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "scans.npy")
        write(path)
        loader = DataLoader(Scans(path), batch, shuffle=True, drop_last=True)
        net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
        batches = iter(loader)
        for step in range(steps):
            began = time.perf_counter()
            slices, found = next(batches)
            loss = F.binary_cross_entropy_with_logits(net(slices), found)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            times.append(1e3 * (time.perf_counter() - began))
    accelerator.print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
