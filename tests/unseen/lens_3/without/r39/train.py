"""Woven patterns through a narrow code and back; three ranks under DDP."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gallery import Gallery

STEPS, SIDE = 26, 12


class Weave(nn.Module):
    def __init__(self):
        super().__init__()
        n = SIDE * SIDE
        self.down = nn.Sequential(nn.Linear(n, 48), nn.ReLU(), nn.Linear(48, 6))
        self.up = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, n))

    def forward(self, x):
        time.sleep(0.025)                        # kernels elsewhere
        code = self.down(x)
        time.sleep(0.025)
        return self.up(code)


def cloth(rng):
    warp = torch.rand(24, SIDE, 1, generator=rng).round()
    weft = torch.rand(24, 1, SIDE, generator=rng).round()
    return (warp * weft).flatten(1)


class Loop:
    def __init__(self, rank):
        self.rank = rank
        self.net = DistributedDataParallel(Weave())
        self.opt = torch.optim.Adam(self.net.parameters(), lr=3e-3)
        self.rng = torch.Generator().manual_seed(77 + rank)
        self.gallery = Gallery() if rank == 0 else None

    def step(self):
        x = cloth(self.rng)
        made = self.net(x)
        loss = (made - x).pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.made = made
        return loss.detach()

    def run(self):
        dist.barrier()
        begin = time.perf_counter()
        losses = [self.step() for _ in range(STEPS)]
        if self.gallery:
            self.gallery.hang(self.made[:3])
        return (time.perf_counter() - begin) / STEPS * 1e3, losses


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(6)
    ms, losses = Loop(dist.get_rank()).run()
    if dist.get_rank() == 0:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
        print(f"{ms:.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


main()
