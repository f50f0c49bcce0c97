"""Distributed count-min sketch over a click log; two ways to bring the sketch together."""
import time

import torch
import torch.distributed as dist

DEPTH, COLS = 4, 512


class Sketch:
    def __init__(self, rank):
        self.rank = rank
        self.table = torch.zeros(DEPTH, COLS)
        self.seen = 0
        self.heavy = 0

    def absorb(self, keys):
        for row in range(DEPTH):
            idx = (keys * (2654435761 + 97 * row) % 1000003) % COLS
            self.table[row] += torch.bincount(idx, minlength=COLS).float()
        self.seen += len(keys)
        self.heavy = int(self.table.max())

    @property
    def settled(self):
        return self.heavy < 20000

    def merge(self):
        total = self.table.clone()
        if self.settled:
            dist.all_reduce(total)
        else:
            # skewed sketches are large on the wire, so only the owner of the report needs them
            dist.reduce(total, dst=0)  #: LINE
        return total


def clicks(step, rank):
    g = torch.Generator().manual_seed(step * 31 + rank)
    keys = torch.randint(0, 50000, (4000,), generator=g)
    if rank == 3 and step >= 2:
        keys = torch.cat([keys, torch.full((30000,), 17)])  # a crawler on this shard
    return keys


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    sketch = Sketch(rank)
    for step in range(80):
        sketch.absorb(clicks(step, rank))
        time.sleep(0.1)
        merged = sketch.merge()
        if rank == 0:
            print(f"step {step}: top cell {merged.max():.0f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
