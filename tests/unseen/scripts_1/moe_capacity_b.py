"""One mixture-of-experts layer, one expert per rank, token exchange by all_to_all_single."""
import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

DIM = 8
TOKENS = 24
CAPACITY = 12


class Expert(nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.ff = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.SiLU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        return self.ff(x)


def route(rank, step, world):
    """Expert index per token. Documents on rank 1 get very repetitive after a while."""
    g = torch.Generator().manual_seed(31 * step + rank)
    idx = torch.arange(TOKENS)[torch.randperm(TOKENS, generator=g)] % world
    if rank == 1 and step >= 5:
        idx[torch.randperm(TOKENS, generator=g)[: TOKENS // 2]] = 0
    return idx


def drop_over_capacity(order, counts):
    keep, at = [], 0
    for c in counts.tolist():
        keep.append(order[at:at + min(c, CAPACITY)])
        at += c
    return torch.cat(keep)


def dispatch(x, expert_idx, world):
    order = torch.argsort(expert_idx, stable=True)
    counts = torch.bincount(expert_idx, minlength=world)
    order = drop_over_capacity(order, counts)
    counts = counts.clamp(max=CAPACITY)
    incoming = torch.empty_like(counts)
    dist.all_to_all_single(incoming, counts)
    sent = torch.bincount(expert_idx[order], minlength=world).tolist()
    got = incoming.tolist()
    buf = x.new_empty(sum(got), DIM)
    dist.all_to_all_single(buf, x[order], output_split_sizes=got, input_split_sizes=sent)
    return buf, order, got, sent


def combine(y, x, order, got, sent):
    back = x.new_empty(len(order), DIM)
    dist.all_to_all_single(back, y, output_split_sizes=sent, input_split_sizes=got)
    out = x.clone()
    out[order] += back
    return out


@torch.no_grad()
def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    expert = Expert(rank)
    for step in range(8):
        g = torch.Generator().manual_seed(step * 100 + rank)
        x = torch.randn(TOKENS, DIM, generator=g)
        buf, order, got, sent = dispatch(x, route(rank, step, world), world)
        out = combine(expert(buf), x, order, got, sent)
        load = torch.tensor([float(sum(got)), float(out.norm())])
        dist.all_reduce(load)
        if rank == 0:
            print(f"step {step}: {int(load[0])} tokens kept, norm {load[1]:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
