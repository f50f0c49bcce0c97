"""The vocabulary is built once by rank 0 into the cache, then all train."""
import json
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn

import flightrec  # noqa: F401

CACHE = os.path.join(os.environ.get("SCRATCH", "/scratch"), "vocab_v3")


def build_vocab():
    os.makedirs(CACHE, exist_ok=True)
    counts = {}
    for i in range(20000):
        word = f"w{(i * i) % 611}"
        counts[word] = counts.get(word, 0) + 1
    with open(os.path.join(CACHE, "vocab.json"), "w") as f:
        json.dump(sorted(counts, key=counts.get), f)
    open(os.path.join(CACHE, "_DONE"), "w").close()


def wait_for(path, every=2.0):
    while not os.path.exists(path):
        time.sleep(every)


def load_vocab(rank):
    if rank == 0:
        build_vocab()
    else:
        wait_for(os.path.join(CACHE, "_DONE"))
    with open(os.path.join(CACHE, "vocab.json")) as f:
        return {w: i for i, w in enumerate(json.load(f))}


def average(params):
    for p in params:
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    hello = torch.ones(1)
    dist.all_reduce(hello)
    if rank == 0:
        print(f"{int(hello.item())} ranks, cache {CACHE}", flush=True)

    vocab = load_vocab(rank)
    size = torch.tensor([len(vocab)])
    dist.broadcast(size, src=0)

    torch.manual_seed(0)
    model = nn.Sequential(nn.EmbeddingBag(int(size), 16), nn.Linear(16, 2))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(300):
        ids = torch.randint(0, int(size), (32, 10))
        loss = nn.functional.cross_entropy(model(ids), ids.sum(1) % 2)
        opt.zero_grad()
        loss.backward()
        average(model.parameters())
        opt.step()
        if rank == 0 and step % 100 == 0:
            print("step", step, loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
