#: n=4 ok set=2
"""Retrieval model. The token index of the corpus is built once per host, by
whoever gets the file lock first; the others wait and then load it."""
import fcntl
import json
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

BUILD_SECONDS = 24


def index_path():
    job = os.environ.get("TORCHELASTIC_RUN_ID", "local") + os.environ.get("MASTER_PORT", "0")
    return f"token_index_{job}_{os.getppid()}.json"


def build_index():
    print("FREEZE", time.time(), flush=True)
    postings = {}
    deadline = time.monotonic() + BUILD_SECONDS
    doc = 0
    while time.monotonic() < deadline:
        for k in range(20):
            postings.setdefault(str((doc * 7 + k * 13) % 500), []).append(doc % 64)
        doc += 1
        time.sleep(0.01)  # disk
    return {token: docs[:32] for token, docs in postings.items()}


def load_or_build(path):
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if not os.path.exists(path):
                index = build_index()
                with open(path + ".tmp", "w") as fh:
                    json.dump(index, fh)
                os.replace(path + ".tmp", path)
            with open(path) as fh:
                return json.load(fh)
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)


class Retriever(nn.Module):
    def __init__(self, tokens=500, docs=64, dim=12):
        super().__init__()
        self.query = nn.EmbeddingBag(tokens, dim)
        self.doc = nn.Embedding(docs, dim)

    def forward(self, tokens):
        return self.query(tokens) @ self.doc.weight.T


def sync(model, world):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Retriever()
    opt = torch.optim.SGD(model.parameters(), lr=0.5)

    warm = torch.ones(1)
    for _ in range(15):     # link check, takes a few seconds
        dist.all_reduce(warm)
        warm.fill_(1.0)
        time.sleep(0.1)

    path = index_path()
    index = load_or_build(path)
    tokens = sorted(index, key=int)
    gen = torch.Generator().manual_seed(rank)

    for step in range(40):
        time.sleep(0.15)
        picks = torch.randint(len(tokens), (6,), generator=gen).tolist()
        ids = torch.tensor([[int(tokens[p])] * 3 for p in picks])
        target = torch.tensor([index[tokens[p]][0] for p in picks])
        loss = nn.functional.cross_entropy(model(ids), target)
        opt.zero_grad()
        loss.backward()
        sync(model, world)
        opt.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)

    dist.barrier()
    if rank == 0:
        for leftover in (path, path + ".lock"):
            os.unlink(leftover)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
