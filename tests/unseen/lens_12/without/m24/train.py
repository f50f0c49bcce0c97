import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from gpt import GPT

MICRO = 3


def shard(model, mesh):
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = GPT()
    shard(model, mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    g = torch.Generator().manual_seed(rank)
    ids = torch.randint(512, (96, 33), generator=g)
    durations = []
    for step in range(60):
        begin = time.perf_counter()
        for micro in range(MICRO):
            model.set_requires_gradient_sync(micro == MICRO - 1)
            rows = ids[torch.randint(96, (3,), generator=g)]
            scores = model(rows[:, :-1])
            loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())
            (loss / MICRO).backward()
        optimizer.step()
        optimizer.zero_grad()
        durations.append(1e3 * (time.perf_counter() - begin))
    if rank == 0:
        durations = durations[3:]
        print(f"{statistics.median(durations):.2f} ms/step median, {statistics.mean(durations):.2f} ms/step")
    dist.destroy_process_group()


main()
