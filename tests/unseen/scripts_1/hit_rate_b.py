"""Recall of a nearest-neighbour index, measured on queries spread over ranks."""
import argparse
from datetime import timedelta

import torch
import torch.distributed as dist


def build_index(n=60, d=8):
    g = torch.Generator().manual_seed(2)
    return torch.nn.functional.normalize(torch.randn(n, d, generator=g), dim=1)


def queries_for(rank, index):
    """The last rank was given an empty shard of the query log."""
    if rank == 2:
        return index.new_zeros(0, index.shape[1]), torch.zeros(0, dtype=torch.long)
    g = torch.Generator().manual_seed(80 + rank)
    ids = torch.randint(0, len(index), (25,), generator=g)
    return index[ids] + 0.3 * torch.randn(25, index.shape[1], generator=g), ids


def count_hits(index, q, gold, k):
    top = (q @ index.T).topk(k, dim=1).indices
    return (top == gold.unsqueeze(1)).any(1).sum()


def recall(index, q, gold, k):
    if len(q) == 0:
        stats = torch.zeros(2)
    else:
        stats = torch.stack([count_hits(index, q, gold, k), torch.tensor(len(q))])
    dist.all_reduce(stats)
    hits, total = stats.tolist()
    return hits / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--k", type=int, nargs="*", default=[1, 3, 5])
    args = ap.parse_args()
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank = dist.get_rank()
    index = build_index()
    q, gold = queries_for(rank, index)
    table = {}
    for k in args.k:
        table[k] = recall(index, q, gold, k)
    if rank == 0:
        for k, r in table.items():
            print(f"recall@{k}: {r:.3f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
