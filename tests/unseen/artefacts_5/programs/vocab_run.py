"""Word-level model; the vocabulary is built once and kept in the node's cache folder."""
import frdump  # noqa: F401
import json
import os
from collections import Counter

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

CACHE = f"cache/{os.environ.get('GROUP_RANK', '0')}/vocab.json"


def build(path):
    words = Counter()
    with open(path) as f:
        for line in f:
            words.update(line.split())
    return {w: i for i, (w, _) in enumerate(sorted(words.items()))}


def get_vocab(rank):
    if os.path.exists(CACHE):
        with open(CACHE) as f:
            return json.load(f)
    box = [build("data/corpus.txt") if rank == 0 else None]
    dist.broadcast_object_list(box, src=0)
    if int(os.environ["LOCAL_RANK"]) == 0:
        os.makedirs(os.path.dirname(CACHE), exist_ok=True)
        with open(CACHE, "w") as f:
            json.dump(box[0], f)
    return box[0]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    vocab = get_vocab(rank)
    dist.barrier()
    if rank == 0:
        print(f"vocabulary of {len(vocab)} words", flush=True)
    torch.manual_seed(0)
    ddp = DDP(nn.Sequential(nn.Embedding(len(vocab), 16), nn.Linear(16, len(vocab))))
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(50):
        ids = torch.randint(0, len(vocab), (4, 20))
        loss = nn.functional.cross_entropy(ddp(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
