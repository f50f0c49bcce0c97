"""A stack of layers sharded with FSDP2: each block is one group, its norms and scales included."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from pace import Pace

STEPS = 60
BATCH, WIDTH, DEPTH = 384, 384, 3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.scale = nn.Parameter(torch.full((WIDTH,), 0.1))
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.scale * self.down(F.gelu(self.up(self.norm(x))))


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, 20)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Stack()
    mesh = init_device_mesh("cpu", (world,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(rank)
    pace = Pace()
    for step in range(STEPS):
        x = torch.randn(BATCH, WIDTH, generator=generator)
        y = x[:, :20].argmax(1)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        pace.tick()
    if rank == 0:
        print(f"final loss {loss.item():.4f}")
        pace.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
