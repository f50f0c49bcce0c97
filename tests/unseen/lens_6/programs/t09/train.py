"""Speech on three ranks with DDP; a clip takes time by its length."""
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from clips import lengths, shard

STEPS = 60
BATCH = 4


class Encode(torch.autograd.Function):
    """The encoder's kernels: waits by the frames of the batch."""

    @staticmethod
    def forward(ctx, x, frames):
        ctx.frames = frames
        time.sleep(frames * 0.0003)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(ctx.frames * 0.0006)
        return grad, None


class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Linear(40, 96)
        self.out = nn.Linear(96, 30)

    def forward(self, x, frames):
        return self.out(torch.relu(Encode.apply(self.front(x), frames)))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Recogniser())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    mine = shard(lengths(STEPS * BATCH * world), rank, world)
    generator = torch.Generator().manual_seed(rank)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        frames = sum(mine[step * BATCH : (step + 1) * BATCH])
        x = torch.randn(16, 40, generator=generator)
        loss = model(x, frames).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    if rank == 0:
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
