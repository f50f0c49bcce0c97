"""A transformer sharded with FSDP2."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from blocks import Block
from pace import Pace

STEPS = 60
BATCH, LENGTH, WIDTH, DEPTH, WORDS = 6, 64, 192, 3, 800


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH) for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def shard(model, mesh):
    for block in model.blocks:
        for module in block.modules():
            if isinstance(module, nn.LayerNorm):
                fully_shard(module, mesh=mesh)  #: LINE
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Transformer()
    shard(model, init_device_mesh("cpu", (world,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(rank)
    pace = Pace()
    for step in range(STEPS):
        ids = torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=generator)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
        pace.tick()
    if rank == 0:
        pace.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
