"""A little language model, sharded over the processes with FSDP2."""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from blocks import Block, Tower

VOCAB, DIM, DEPTH = 800, 160, 2


def shard(model, mesh):
    for module in model.blocks.modules():
        if isinstance(module, Block):
            fully_shard(module, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), int(os.environ["WORLD_SIZE"])
    torch.manual_seed(3)
    model = Tower(VOCAB, DIM, DEPTH)
    shard(model, init_device_mesh("cpu", (world,)))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    gen = torch.Generator().manual_seed(100 + rank)
    durations = []
    mark = time.perf_counter()
    for _ in range(60):
        ids = torch.randint(0, VOCAB, (8, 97), generator=gen)
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        durations.append(time.perf_counter() - mark)
        mark = time.perf_counter()
    if rank == 0:
        d = sorted(durations[3:])
        print(f"{d[len(d) // 2] * 1e3:.2f} ms/step median, {sum(d) / len(d) * 1e3:.2f} ms/step", flush=True)
    del model, opt
    dist.barrier()
    dist.destroy_process_group()


main()
