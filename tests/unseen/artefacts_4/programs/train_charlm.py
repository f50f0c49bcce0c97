"""Subword language model: the first rank learns the merges, then all ranks train."""
import argparse
import json
import os
import random
from collections import Counter

import flightdump  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def make_text(n, seed=0):
    rng = random.Random(seed)
    syllables = [a + b for a in "bcdfglmnprst" for b in "aeiou"]
    return ["".join(rng.choices(syllables, k=rng.randint(1, 5))) for _ in range(n)]


def learn_merges(words, count):
    """plain byte pair encoding, recounting all pairs for each merge"""
    table = Counter(tuple(w) for w in words)
    merges = []
    for _ in range(count):
        pairs = Counter()
        for word, freq in table.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += freq
        best = max(pairs, key=pairs.get)
        merges.append(best)
        table = Counter({merge_word(w, best): f for w, f in table.items()})
    return merges


def merge_word(word, pair):
    out, i = [], 0
    while i < len(word):
        if word[i:i + 2] == pair:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return tuple(out)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--words", type=int, default=40000)
    ap.add_argument("--merges", type=int, default=300)
    ap.add_argument("--vocab", default="merges.json")
    args = ap.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    words = make_text(args.words)
    if rank == 0 and not os.path.exists(args.vocab):
        print(f"learning {args.merges} merges from {len(words)} words", flush=True)
        with open(args.vocab, "w") as f:
            json.dump(learn_merges(words, args.merges), f)
    dist.barrier()
    merges = json.load(open(args.vocab))
    print(f"rank {rank}: {len(merges)} merges", flush=True)

    model = DDP(nn.Sequential(nn.Embedding(len(merges), 32), nn.Flatten(), nn.Linear(8 * 32, len(merges))))
    opt = torch.optim.Adam(model.parameters())
    g = torch.Generator().manual_seed(rank)
    for step in range(20):
        ids = torch.randint(0, len(merges), (32, 9), generator=g)
        loss = nn.functional.cross_entropy(model(ids[:, :8]), ids[:, 8])
        opt.zero_grad()
        loss.backward()
        opt.step()
    if rank == 0:
        print(f"done, loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
