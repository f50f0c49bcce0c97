"""Activation relay over stages, two virtual chunks a stage, plain send/recv."""
import os

import torch
import torch.distributed as c10d

HIDDEN = 32
CHUNKS = 2
MICRO = 2


def neighbours(rank, world, chunk):
    """peers (from, to) of a chunk, None at the ends of the model"""
    virt = chunk * world + rank
    src = None if virt == 0 else (rank - 1) % world
    dst = None if virt == world * CHUNKS - 1 else (rank + 1) % world
    if chunk == 1 and rank == world - 2:
        dst = (rank + 2) % world  #: LINE
    return src, dst


class Chunk(torch.nn.Module):
    def __init__(self, idx):
        super().__init__()
        self.idx = idx
        self.body = torch.nn.Sequential(torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.GELU())

    def forward(self, h):
        return h + self.body(h)


def run_chunk(chunk, rank, world):
    src, dst = neighbours(rank, world, chunk.idx)
    for mb in range(MICRO):
        if src is None:
            h = torch.randn(2, HIDDEN)
        else:
            h = torch.empty(2, HIDDEN)
            c10d.recv(h, src)
        with torch.no_grad():
            h = chunk(h)
        if dst is not None:
            c10d.send(h, dst)
        else:
            print(f"mb {mb}: |h| = {h.norm():.3f}", flush=True)


def main():
    c10d.init_process_group("gloo")
    rank, world = c10d.get_rank(), c10d.get_world_size()
    stages = [Chunk(i) for i in range(CHUNKS)]
    for it in range(3):
        for ch in stages:
            run_chunk(ch, rank, world)
        if rank == 0:
            print("iteration", it, "over", flush=True)
        c10d.barrier()
    c10d.destroy_process_group()


if __name__ == "__main__":
    main()
