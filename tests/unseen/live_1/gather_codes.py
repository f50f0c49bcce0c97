"""Collects the codes of a vector quantiser from all workers into one histogram."""
import argparse

import torch
import torch.distributed as dist


def load_shard(rank, world, total=1018, dim=8):
    g = torch.Generator().manual_seed(3)
    data = torch.randn(total, dim, generator=g)
    per = -(-total // world)
    return data[rank * per:(rank + 1) * per]


def batches(shard, size):
    for start in range(0, shard.size(0), size):
        yield shard[start:start + size]


def assign(codebook, batch):
    return torch.cdist(batch, codebook).argmin(dim=1)


def gather(codes, world):
    buf = [torch.empty_like(codes) for _ in range(world)]
    dist.all_gather(buf, codes)  #: LINE
    return torch.cat(buf)


def run(args):
    rank, world = dist.get_rank(), dist.get_world_size()
    shard = load_shard(rank, world)
    codebook = torch.randn(32, 8, generator=torch.Generator().manual_seed(11))
    hist = torch.zeros(32, dtype=torch.long)
    for i, b in enumerate(batches(shard, args.batch)):
        codes = assign(codebook, b)
        everyone = gather(codes, world)
        hist += torch.bincount(everyone, minlength=32)
        if rank == 0:
            print("batch", i, "codes", everyone.numel(), flush=True)
    if rank == 0:
        print("perplexity", torch.exp(torch.distributions.Categorical(hist.float()).entropy()).item())
    dist.barrier()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=25)
    ns = ap.parse_args()
    dist.init_process_group("gloo")
    run(ns)
    dist.destroy_process_group()
