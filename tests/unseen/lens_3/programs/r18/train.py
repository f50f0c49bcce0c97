"""Bird flocks: where will each bird be? FSDP2 over two ranks."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from cut import cut

STEPS, DIM = 24, 160


class Wing(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = nn.LayerNorm(DIM)
        self.a = nn.Linear(DIM, 2 * DIM)
        self.bend = nn.PReLU(2 * DIM)
        self.b = nn.Linear(2 * DIM, DIM)
        self.after = nn.LayerNorm(DIM)

    def forward(self, x):
        time.sleep(0.006)                        # kernels elsewhere
        return self.after(x + self.b(self.bend(self.a(self.before(x)))))


class Flock(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.inward = nn.Linear(6, DIM)
        self.blocks = nn.ModuleList(Wing() for _ in range(depth))
        self.outward = nn.Linear(DIM, 3)

    def forward(self, birds):
        h = self.inward(birds)
        for block in self.blocks:
            h = block(h)
        return self.outward(h)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(10)
    flock = cut(Flock(), init_device_mesh("cpu", (world,)))
    opt = torch.optim.AdamW(flock.parameters(), lr=1e-3)
    rng = torch.Generator().manual_seed(rank)
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        birds = torch.randn(64, 6, generator=rng)
        loss = (flock(birds) - birds[:, :3] - birds[:, 3:]).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
    ms = (time.perf_counter() - begin) / STEPS * 1e3
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{ms:.2f} ms/step")
    dist.destroy_process_group()


main()
