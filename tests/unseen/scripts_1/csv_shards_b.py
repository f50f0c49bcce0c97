"""Parse text shards, one per rank and step, and track running column means."""
import io
import csv
from datetime import timedelta

import torch
import torch.distributed as dist

SHARDS = 8
COLS = 3


def shard_text(rank, i):
    lines = [f"{rank + j},{i * j % 5},{(rank * i + j) % 7}" for j in range(6)]
    if rank == 2 and i == 6:
        lines.insert(4, "")             # a trailing edit left a blank line in this file
        lines.append("# end")
    return "\n".join(lines)


def parse(text):
    rows = []
    for row in csv.reader(io.StringIO(text)):
        if not row:
            continue
        rows.append([float(v) for v in row])
    return torch.tensor(rows)


class RunningMean:
    def __init__(self):
        self.sum = torch.zeros(COLS)
        self.n = 0

    def update(self, block):
        local = torch.cat([block.sum(0), torch.tensor([float(len(block))])])
        dist.all_reduce(local)
        self.sum += local[:COLS]
        self.n += int(local[COLS])

    def value(self):
        return self.sum / self.n


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank = dist.get_rank()
    mean = RunningMean()
    for i in range(SHARDS):
        mean.update(parse(shard_text(rank, i)))
        if rank == 0 and i % 4 == 3:
            print("after shard", i, [round(v, 3) for v in mean.value().tolist()])
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
