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

from tiles import Tiles, write


def cover_net(width=56):
    return nn.Sequential(
        nn.Conv2d(4, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 4, 1),
    )


def forever(loader):
    while True:
        yield from loader


def main(steps=60, batch=16):
    set_seed(0)
    accelerator = Accelerator(cpu=True)
    net = cover_net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tiles.npz")
        write(path)
        loader = DataLoader(Tiles(path), batch, shuffle=True, drop_last=True)
        net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
        batches = forever(loader)
        for step in range(steps):
            began = time.perf_counter()
            tiles, cover = next(batches)
            loss = F.cross_entropy(net(tiles), cover)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            times.append(1e3 * (time.perf_counter() - began))
    accelerator.print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
