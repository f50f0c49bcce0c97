#: n=8 ok set=2
"""Toy 3D-parallel loop (2 x 2 x 2): shards talk along "tp", replicas along
"dp", and only the first pipeline row reports. Different subgroups make different
numbers of calls, which is fine since each subgroup agrees with itself."""
import gc
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh

STEPS = 34
COMPACT_AT = 18
COMPACT_RANK = 6


class TraceArena:
    """Linked trace records, full of reference cycles."""

    def __init__(self, n):
        self.head = None
        for i in range(n):
            node = {"id": i, "prev": self.head}
            node["self"] = node
            self.head = node

    def drop(self):
        self.head = None


def compact(seconds):
    """Builds and drops trace arenas until the allocator has settled."""
    print("FREEZE", time.time(), flush=True)
    end = time.monotonic() + seconds
    freed = 0
    while time.monotonic() < end:
        arena = TraceArena(40_000)
        arena.drop()
        freed += gc.collect()
    return freed


class Comms:
    def __init__(self, mesh):
        self.pp, self.dp, self.tp = mesh.get_coordinate()
        self.groups = {name: mesh.get_group(name) for name in ("pp", "dp", "tp")}

    def mean(self, tensor, axis):
        group = self.groups[axis]
        dist.all_reduce(tensor, group=group)
        tensor /= dist.get_world_size(group)

    def gather(self, tensor, axis):
        group = self.groups[axis]
        out = [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]
        dist.all_gather(out, tensor, group=group)
        return torch.cat(out)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    comms = Comms(mesh)
    torch.manual_seed(100 * comms.pp + comms.tp)
    shard = nn.Linear(10, 6)
    opt = torch.optim.SGD(shard.parameters(), lr=0.05)
    gen = torch.Generator().manual_seed(comms.dp)

    for step in range(STEPS):
        time.sleep(0.12)
        x = torch.randn(8, 10, generator=gen)
        y = shard(x)
        full = comms.gather(y.detach().T.contiguous(), "tp")
        loss = y.pow(2).mean() + 0.01 * full.mean()
        opt.zero_grad()
        loss.backward()
        for p in shard.parameters():
            comms.mean(p.grad, "dp")
        if comms.pp == 0 and step % 4 == 0:
            # reporting rows only
            stat = loss.detach().view(1)
            comms.mean(stat, "dp")
            comms.mean(stat, "tp")
            if rank == 0:
                print(f"step {step} loss {stat.item():.4f}", flush=True)
        if step % 6 == 5:
            norm = sum(p.norm() for p in shard.parameters()).detach().view(1)
            comms.mean(norm, "pp")
        opt.step()
        if step == COMPACT_AT and rank == COMPACT_RANK:
            freed = compact(18.0)
            print(f"rank {rank}: collected {freed} objects", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
