"""Matching of job adverts and applicants. The output table is split over two ranks; the full one is needed before and after the update."""

import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

from halves import SplitTable

DIM, ROWS = 96, 512


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    tower = nn.Sequential(nn.Linear(300, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, DIM))
    table = SplitTable(ROWS, DIM)
    tower_opt = torch.optim.AdamW(tower.parameters(), lr=5e-4)
    table_opt = torch.optim.SGD([table.mine], lr=0.1)
    truth = torch.randn(300, ROWS, generator=torch.Generator().manual_seed(3))
    taken, moved = [], 0.0
    for step in range(100):
        t0 = time.perf_counter()
        rng = torch.Generator().manual_seed(step)
        x = torch.randn(384, 300, generator=rng)
        y = (x @ truth).argmax(1)
        before = table.whole()
        leaf = before.clone().requires_grad_()
        loss = nn.functional.cross_entropy(tower(x) @ leaf.t(), y)
        tower_opt.zero_grad()
        loss.backward()
        table.take(leaf.grad)
        tower_opt.step()
        table_opt.step()
        after = table.whole()
        moved = 0.9 * moved + 0.1 * (after - before).norm().item()
        taken.append(1e3 * (time.perf_counter() - t0))
    if rank == 0:
        print(f"the table moves {moved:.4f} a step")
        print(f"{statistics.median(taken):.2f} ms/step median, {statistics.mean(taken):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
