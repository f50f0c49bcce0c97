"""A denoiser on two ranks (DDP)."""
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from predictions import gather_all

STEPS = 60
LOG_EVERY = 30


class Kernels(torch.autograd.Function):
    """The middle layers (waits)."""

    @staticmethod
    def forward(ctx, x):
        time.sleep(0.014)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.022)
        return grad


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(16, 16)

    def forward(self, x):
        return x + Kernels.apply(self.mix(x))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Denoiser())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(rank)
    clean = torch.randn(24, 3000, 16, generator=generator)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        noisy = clean + 0.1
        output = model(noisy)
        loss = (output - clean).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        outputs = gather_all(output.detach())  #: LINE
        if step % LOG_EVERY == LOG_EVERY - 1 and rank == 0:
            print(f"step {step + 1} mean {outputs.mean():.4f} spread {outputs.std():.4f}")
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    if rank == 0:
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
