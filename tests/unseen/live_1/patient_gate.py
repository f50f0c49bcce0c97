"""Uses monitored_barrier with a generous limit around an uneven index build."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def build_index(rank, epoch):
    """the index of rank 1 has many more entries"""
    cells = 90 if rank == 1 else 10
    table = torch.zeros(cells, 16)
    for c in range(cells):
        table[c] = torch.randn(256, 16).mean(0)
        time.sleep(0.1)
        if c % 30 == 29:
            print(f"rank {rank} epoch {epoch} cell {c + 1}", flush=True)
    return table


def search(table, q):
    return (table @ q).argmax().item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for epoch in range(2):
        table = build_index(rank, epoch)
        dist.monitored_barrier(timeout=timedelta(seconds=45), wait_all_ranks=True)
        hits = torch.zeros(4)
        for k in range(30):
            q = torch.randn(16)
            dist.broadcast(q, 0)
            hits[search(table, q) % 4] += 1
        dist.all_reduce(hits)
        if rank == 0:
            print("epoch", epoch, "hits", hits.tolist(), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
