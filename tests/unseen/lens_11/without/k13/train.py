"""Dense passage retrieval, sharded with fully_shard over two processes."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from pace import Pace
from tower import Tower

STEPS = 60
PAIRS = 8


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (world,))
    tower = Tower()
    for layer in tower.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(tower, mesh=mesh)
    opt = torch.optim.AdamW(tower.parameters(), lr=1e-4)
    gen = torch.Generator().manual_seed(20 + rank)
    pace = Pace()
    for step in range(STEPS):
        questions = torch.randn(PAIRS, 12, 384, generator=gen)
        passages = questions + 0.5 * torch.randn(PAIRS, 12, 384, generator=gen)
        q, p = tower(torch.cat([questions, passages])).chunk(2)
        loss = F.cross_entropy(q @ p.T / 0.05, torch.arange(PAIRS))
        opt.zero_grad()
        loss.backward()
        opt.step()
        pace.tick()
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        pace.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
