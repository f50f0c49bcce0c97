import contextlib
import fcntl
import json
import os
import sys

import torch
import torch.distributed as dist

CACHE = f"/tmp/vocab_cache_{os.environ.get('TORCHELASTIC_RUN_ID', 'x')}_{os.environ['MASTER_PORT']}"


@contextlib.contextmanager
def locked(path):
    fd = os.open(path + ".lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def text(seed, n=4000):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(0, 900, (n,), generator=g).tolist()


def build_vocab(rank):
    count = torch.zeros(900, dtype=torch.int64)
    for t in text(rank):
        count[t] += 1
    return count


def vocab(rank):
    """counts over all shards, cached on the local disk"""
    with locked(CACHE):
        if os.path.exists(CACHE):
            with open(CACHE) as fh:
                return torch.tensor(json.load(fh))
        count = build_vocab(rank)
        dist.all_reduce(count)  #: LINE
        with open(CACHE, "w") as fh:
            json.dump(count.tolist(), fh)
        return count


def train(v, rank):
    table = torch.nn.Embedding(len(v), 8)
    for step in range(10):
        loss = table(torch.tensor(text(step * 17 + rank, 64))).pow(2).mean()
        loss.backward()
        dist.all_reduce(table.weight.grad)
        table.weight.grad = None
    return loss


if __name__ == "__main__":
    dist.init_process_group("gloo")
    me = dist.get_rank()
    print("rank", me, "building vocabulary", file=sys.stderr, flush=True)
    v = vocab(me)
    print("rank", me, "got", int(v.sum()), "tokens", flush=True)
    train(v, me)
    dist.destroy_process_group()
    if me == 0:
        os.unlink(CACHE)
