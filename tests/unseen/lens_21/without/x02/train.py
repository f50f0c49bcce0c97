import statistics
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader

from galaxies import Stream, survey


def block(inside, outside):
    return nn.Sequential(nn.Conv2d(inside, outside, 3, 2, 1), nn.GroupNorm(8, outside), nn.SiLU())


def main(steps=60, batch=16, width=24):
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    net = nn.Sequential(block(3, width), block(width, 2 * width), nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.SiLU(),
                        block(2 * width, 4 * width), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 4))
    net, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=2e-3, fused=True))
    stream = Stream(survey(), accelerator.process_index, accelerator.num_processes)
    batches = iter(DataLoader(stream, batch_size=batch))
    criterion = nn.CrossEntropyLoss()
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        pictures, kinds = next(batches)
        loss = criterion(net(pictures), kinds)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))
    accelerator.print(f"loss {loss.item():.6f}")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
