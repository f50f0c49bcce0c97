"""2-D process grid: sums over the row and over the column of every rank."""
import argparse
from datetime import timedelta

import torch
import torch.distributed as dist

LIMIT = timedelta(seconds=20)


class Grid:
    def __init__(self, rows, cols):
        assert rows * cols == dist.get_world_size()
        self.rank = dist.get_rank()
        self.r, self.c = divmod(self.rank, cols)
        self.row_group = self.col_group = None
        for i in range(rows):
            members = [i * cols + j for j in range(cols)]
            g = dist.new_group(members, timeout=LIMIT)
            if i == self.r:
                self.row_group = g
        for j in range(cols):
            members = [i * cols + j for i in range(rows)]
            g = dist.new_group(members, timeout=LIMIT)
            if j == self.c:
                self.col_group = g


def power_iteration(grid, block, steps):
    n = block.shape[0]
    v = torch.ones(n)
    value = 0.0
    for step in range(steps):
        partial = block @ v
        check = v.square().sum().reshape(1)
        # change the order now and then, so neither link is always first
        if step % 2 == 0:
            dist.all_reduce(partial, group=grid.row_group)
            dist.all_reduce(check, group=grid.col_group)
        else:
            dist.all_reduce(check, group=grid.col_group)
            dist.all_reduce(partial, group=grid.row_group)
        norm = partial.square().sum()
        dist.all_reduce(norm, group=grid.col_group)
        value = norm.sqrt().item()
        v = partial / value
        # transpose: diagonal owners hand the new vector down their column
        dist.broadcast(v, src=grid.c * 2 + grid.c, group=grid.col_group)
    return value


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=16)
    ap.add_argument("--steps", type=int, default=8)
    args = ap.parse_args()
    dist.init_process_group("gloo", timeout=LIMIT)
    grid = Grid(2, 2)
    g = torch.Generator().manual_seed(3)
    a = torch.rand(args.size, args.size, generator=g)
    a = a + a.T
    h = args.size // 2
    block = a[grid.r * h:(grid.r + 1) * h, grid.c * h:(grid.c + 1) * h]
    value = power_iteration(grid, block, args.steps)
    if grid.rank == 0:
        print("estimate", round(value, 4), "exact", round(torch.linalg.eigvalsh(a)[-1].item(), 4))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
