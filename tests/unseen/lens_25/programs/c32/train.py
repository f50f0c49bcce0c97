import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel


def stage(before, after, stride):
    return nn.Sequential(
        nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
        nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
    )


class Lichens(nn.Module):
    def __init__(self, kinds=12):
        super().__init__()
        self.stages = nn.Sequential(stage(3, 32, 2), stage(32, 64, 2))
        self.head = nn.Linear(64, kinds)

    def forward(self, pictures):
        return self.head(self.stages(pictures).mean((2, 3)))


def pictures(rank, count=1200, kinds=12, side=32):
    made = torch.Generator().manual_seed(40 + rank)
    kind = torch.randint(0, kinds, (count,), generator=made)
    tint = torch.rand(kinds, 3, 1, 1, generator=torch.Generator().manual_seed(4))
    return tint[kind] + 0.4 * torch.randn(count, 3, side, side, generator=made), kind


def main(steps=60, batch=112):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Lichens(), broadcast_buffers=True, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
    images, kinds = pictures(rank)
    made = torch.Generator().manual_seed(rank)
    times = []
    for step in range(steps):
        t = time.perf_counter()
        picked = torch.randint(0, len(kinds), (batch,), generator=made)
        loss = F.cross_entropy(model(images[picked]), kinds[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - t))
    if rank == 0:
        print(f"last loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
