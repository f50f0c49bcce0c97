"""Ranks wait in the store for a manifest that one of them writes after indexing."""
import json
import time
from datetime import timedelta

import torch
import torch.distributed as dist


class Manifest:
    def __init__(self, store):
        self.store = store

    def publish(self, rows):
        self.store.set("manifest", json.dumps(rows))
        self.store.set("manifest/done", "1")

    def read(self):
        self.store.wait(["manifest/done"], timedelta(minutes=5))
        return json.loads(self.store.get("manifest"))


def index(n=9):
    rows = []
    for k in range(n):
        time.sleep(2)
        rows.append({"file": f"part-{k:03d}", "rows": 100 + k})
        print("indexed", rows[-1]["file"], flush=True)
    return rows


def consume(rows, rank, world):
    total = torch.zeros(1)
    for row in rows[rank::world]:
        total += row["rows"]
    dist.all_reduce(total)
    return total.item()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    man = Manifest(dist.PrefixStore("data", dist.distributed_c10d._get_default_store()))
    indexer = world - 1
    if rank == indexer:
        man.publish(index())
    rows = man.read()
    for epoch in range(5):
        n = consume(rows, rank, world)
        if rank == 0:
            print("epoch", epoch, "rows", n, flush=True)
    dist.destroy_process_group()


main()
