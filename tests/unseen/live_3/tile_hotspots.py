"""2 x 2 grid of tiles: sums along rows and along columns, hot tiles look up and down first."""
import time

import torch
import torch.distributed as dist

STEPS = 260


class Grid:
    def __init__(self, rank):
        rows = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        cols = [dist.new_group([0, 2]), dist.new_group([1, 3])]
        self.row, self.col = rows[rank // 2], cols[rank % 2]
        self.rank = rank
        self.heat = torch.zeros(6, 6)

    def absorb(self, step):
        g = torch.Generator().manual_seed(step * 13 + self.rank)
        self.heat = 0.98 * self.heat + 0.02 * torch.rand(6, 6, generator=g)
        if step >= 170 and self.rank in (1, 2):
            self.heat[2, 2] += 1.5  # a burner under the off-diagonal tiles

    def order(self):
        if self.heat.max() > 2.0:
            return [self.col, self.row]  #: LINE
        return [self.row, self.col]

    def relax(self):
        border = self.heat.mean(dim=0)
        for line in self.order():
            dist.all_reduce(border, group=line)
            border = border / 2
        self.heat += 0.01 * (border - self.heat)
        return border.mean()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    grid = Grid(rank)
    for step in range(STEPS):
        grid.absorb(step)
        time.sleep(0.18)
        level = grid.relax()
        if step % 20 == 0 and rank == 0:
            print(f"step {step}: border level {level:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
