#: n=6 ranks=4 cause=unmatched_p2p tier=error set=3
"""Weather surrogate on a ring of longitude slabs; halos move with batch_isend_irecv."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

ROWS, COLS = 6, 8


class Topology:
    """Who borders on whom. Slabs without land may be merged into a coarser one."""

    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.west = (rank - 1) % world
        self.east = (rank + 1) % world

    def coarsen(self, idle_steps):
        if idle_steps < 5:
            return
        # western neighbour is taken for a merged slab: talk to the one behind it
        self.west = (self.rank - 2) % self.world
        print(f"rank {self.rank}: west neighbour is now {self.west}")
        print("FREEZE", time.time(), flush=True)


class Slab(nn.Module):
    def __init__(self, topo):
        super().__init__()
        self.topo = topo
        self.conv = nn.Conv1d(ROWS, ROWS, 3)
        self.field = torch.randn(ROWS, COLS, generator=torch.Generator().manual_seed(topo.rank))

    def halos(self):
        t = self.topo
        from_west, from_east = torch.empty(ROWS), torch.empty(ROWS)
        ops = [
            dist.P2POp(dist.isend, self.field[:, 0].contiguous(), t.west, tag=1),
            dist.P2POp(dist.isend, self.field[:, -1].contiguous(), t.east, tag=2),
            dist.P2POp(dist.irecv, from_east, t.east, tag=1),
            dist.P2POp(dist.irecv, from_west, t.west, tag=2),
        ]
        for req in dist.batch_isend_irecv(ops):
            req.wait()  #: LINE
        return from_west, from_east

    def forward(self):
        w, e = self.halos()
        wide = torch.cat([w[:, None], self.field, e[:, None]], dim=1)
        return self.conv(wide[None])[0]


class Activity:
    def __init__(self, rank):
        self.rank, self.idle = rank, 0

    def observe(self, step):
        calm = self.rank == 4 and step >= 16
        self.idle = self.idle + 1 if calm else 0
        return self.idle


def simulate(steps=60):
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(8)
    topo = Topology(rank, world)
    slab, activity = Slab(topo), Activity(rank)
    opt = torch.optim.SGD(slab.parameters(), lr=0.01)
    for step in range(steps):
        time.sleep(0.18)
        topo.coarsen(activity.observe(step))
        out = slab()
        loss = (out - slab.field).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        slab.field = out.detach().clamp(-2, 2)
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    simulate()
    dist.destroy_process_group()
