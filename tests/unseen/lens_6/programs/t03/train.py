"""A residual regression network on two ranks, gradients averaged by hand."""
import statistics
import time

import torch
import torch.distributed as dist

from network import build
from parallel import average_gradients, broadcast_parameters

STEPS = 60


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = build()
    broadcast_parameters(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(100 + rank)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(32, 32, generator=generator)
        y = x.mean(1, keepdim=True)
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
