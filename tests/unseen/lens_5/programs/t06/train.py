"""Deep narrow network for turbine readings, three ranks. Each rank keeps the Adam state of a third of the parameters."""

import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

from thirds import ThirdsAdam


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        return x + nn.functional.silu(self.mix(self.norm(x)))


def readings(seed, count=512, width=64):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(count, width, generator=rng)
    return x, torch.sin(x.sum(1, keepdim=True) / 8)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(2)
    net = nn.Sequential(*[Block(64) for _ in range(24)], nn.Linear(64, 1))
    optimizer = ThirdsAdam(list(net.parameters()), lr=1e-3)
    took = []
    for step in range(100):
        t0 = time.perf_counter()
        x, y = readings(step * world + rank)
        loss = nn.functional.mse_loss(net(x), y)
        net.zero_grad()
        loss.backward()
        optimizer.step()
        took.append(time.perf_counter() - t0)
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
