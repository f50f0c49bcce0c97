"""Scoring of documents: the ranks take tasks from a counter in the store, as many as they can."""
import time

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

TASKS = 130


def score(task):
    g = torch.Generator().manual_seed(task)
    length = int(torch.randint(40, 400, (1,), generator=g))
    time.sleep(length / 1000)
    if task % 29 == 7:
        raise ValueError(f"document {task} is empty")
    return torch.randn(length, generator=g).std().item()


def work(rank, store):
    scores = {}
    while True:
        task = store.add("next", 1) - 1
        if task >= TASKS:
            return scores
        try:
            scores[task] = score(task)
        except ValueError as err:
            scores[task] = 0.0
            print(f"rank {rank}: ERROR {err}, scored as 0", flush=True)
        if rank == 4:
            time.sleep(0.3)  # an old machine: takes fewer tasks


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    store = dist.PrefixStore("tasks", c10d._get_default_store())
    mine = work(rank, store)
    print(f"rank {rank} did {len(mine)} tasks", flush=True)
    parts = [None] * world if rank == 0 else None
    dist.gather_object(mine, parts, dst=0)
    if rank == 0:
        merged = {}
        for part in parts:
            merged.update(part)
        assert len(merged) == TASKS
        print(f"{len(merged)} tasks, mean {sum(merged.values()) / TASKS:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
