import csv
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Subset

from cover import CoverNet, Tiles


def main(steps=60, batch=12):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    tiles = Tiles()
    mine = Subset(tiles, range(rank, len(tiles), world))
    loader = iter(DataLoader(mine, batch, shuffle=True, drop_last=True))
    model = DDP(CoverNet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        if rank == 0:
            table = open(os.path.join(folder, "loss.csv"), "w", newline="")
            rows = csv.writer(table)
        for step in range(steps):
            began = time.perf_counter()
            x, kinds = next(loader)
            loss = F.cross_entropy(model(x), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0:
                rows.writerow([step, f"{loss.item():.5f}", optimizer.param_groups[0]["lr"]])
                table.flush()
            times.append(1e3 * (time.perf_counter() - began))
        if rank == 0:
            table.close()
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
