import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from guard import guard


class Layer(nn.Module):
    def __init__(self, width, outside):
        super().__init__()
        self.conv = nn.Conv2d(width, outside, 3, 1, 1, groups=8)
        self.norm, self.act = nn.BatchNorm2d(outside), nn.GELU()

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Orchard(nn.Module):
    """Counts the fruit on a picture of a tree."""

    def __init__(self, width=24):
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, 2, 1)
        self.body = nn.Sequential(Layer(width, width), Layer(width, width), nn.MaxPool2d(2), Layer(width, 2 * width),
                                  Layer(2 * width, 2 * width), nn.MaxPool2d(2), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(2 * width * 36, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, x):
        return self.head(self.body(self.enter(x))).squeeze(1)


def trees(count, side=48):
    fruit = torch.randint(0, 30, (count,)).float()
    spots = (torch.rand(count, 1, side, side) < fruit.view(-1, 1, 1, 1) / side ** 2).float()
    return spots * torch.tensor([1.0, 0.4, 0.1]).view(3, 1, 1) + 0.1 * torch.rand(count, 3, side, side), fruit / 30


def main(steps=60, batch=10):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    pictures, fruit = trees(480)
    model = DDP(guard(Orchard()), broadcast_buffers=False, gradient_as_bucket_view=True)  #: LINE
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        picked = torch.randperm(len(pictures))[rank::world][:batch]
        loss = nn.functional.mse_loss(model(pictures[picked]), fruit[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - begin))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
