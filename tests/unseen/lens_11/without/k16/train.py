"""Diffusion model of tabular sensor data, two processes; the averaged weights live on rank 0."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

from averaged import Averaged
from pace import Pace

STEPS, BATCH, WIDTH = 60, 112, 1024


class Denoise(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(65, WIDTH)
        self.mid = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, 64)

    def forward(self, x, t):
        h = self.inp(torch.cat([x, t], 1))
        for layer in self.mid:
            h = h + layer(torch.nn.functional.silu(h))
        return self.out(h)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Denoise(), gradient_as_bucket_view=True)
    averaged = Averaged(model.module, 0.995 ** 10) if rank == 0 else None
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(rank + 1)
    pace = Pace()
    for step in range(STEPS):
        x = torch.randn(BATCH, 64, generator=gen)
        t = torch.rand(BATCH, 1, generator=gen)
        noise = torch.randn(BATCH, 64, generator=gen)
        loss = (model((1 - t) * x + t * noise, t) - noise).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 10 == 9:
            averaged.update(model.module)
        pace.tick()
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        pace.report()
    dist.barrier()
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
