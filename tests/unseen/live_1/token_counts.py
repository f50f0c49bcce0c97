"""Perplexity over several corpora; weights are token counts."""
import json
import sys

import torch
from torch import distributed as D

SOURCES = [
    {"name": "wiki", "tokens": 120_000},
    {"name": "news", "tokens": 80_500},
    {"name": "code", "tokens": "64000"},
    {"name": "mail", "tokens": 12_250},
]


def tokens_of(src):
    n = src["tokens"]
    if isinstance(n, str):
        # older manifests hold strings
        return torch.tensor([int(n)], dtype=torch.int32)  #: LINE
    return torch.tensor([float(n)])


def nll_of(src, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.rand(50, generator=g).mean() * 4


def weighted_mean(value, weight):
    num = value * weight.float()
    D.all_reduce(num)
    D.all_reduce(weight)
    return (num / weight).item(), weight.item()


def main():
    D.init_process_group(backend="gloo")
    r = D.get_rank()
    src = SOURCES[r % len(SOURCES)]
    history = []
    for epoch in range(5):
        w = tokens_of(src)
        v = nll_of(src, epoch * 10 + r)
        mean, total = weighted_mean(v, w)
        history.append(mean)
        if r == 0:
            print(json.dumps({"epoch": epoch, "nll": mean, "tokens": total}), flush=True)
        print(f"{src['name']:>5s} saw total={total}", file=sys.stderr, flush=True)
    D.barrier()
    D.destroy_process_group()


if __name__ == "__main__":
    main()
