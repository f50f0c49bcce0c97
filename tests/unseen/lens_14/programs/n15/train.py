import os
import statistics
from time import perf_counter

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from molecules import GIN, merge, molecules


def shard(graphs, rank, world):
    part = len(graphs) // world
    return graphs[rank * part:(rank + 1) * part]  #: LINE


def main(steps=62, batch=40):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    mine = shard(molecules(), rank, world)
    loader = DataLoader(mine, batch_size=batch, shuffle=True, collate_fn=merge, drop_last=True)
    model = DistributedDataParallel(GIN())
    opt = torch.optim.Adam(model.parameters(), lr=5e-4)
    times, step = [], 0
    begin = perf_counter()
    while step < steps:
        for atoms, edges, owner, target in loader:
            loss = torch.nn.functional.mse_loss(model(atoms, edges, owner, len(target)), target)
            opt.zero_grad()
            loss.backward()
            opt.step()
            now = perf_counter()
            times.append(1e3 * (now - begin))
            begin = now
            step += 1
            if step == steps:
                break
    if rank == 0:
        times = times[3:]
        print(f"loss {loss.item():.4f} on {os.environ['WORLD_SIZE']} ranks")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
