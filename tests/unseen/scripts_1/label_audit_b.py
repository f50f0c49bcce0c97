import argparse
import json
import os
import tempfile
from collections import Counter
from datetime import timedelta

import torch
import torch.distributed as dist

CONFIG = {"threshold": 0.4, "classes": ["cat", "dog", "bird"], "seed": 19}


def build_shards(world):
    """Made by rank 0 only: list of (id, label, score) per rank."""
    g = torch.Generator().manual_seed(CONFIG["seed"])
    rows = []
    for i in range(30):
        label = CONFIG["classes"][i % 3]
        score = torch.rand(1, generator=g).item()
        if i % world == world - 1:
            score = 0.5 + score / 2
        rows.append((i, label, round(score, 3)))
    return [rows[r::world] for r in range(world)]


def find_suspects(rows, threshold):
    return [r for r in rows if r[2] < threshold]


def write_report(path, suspects):
    tmp = path + ".tmp"
    with open(tmp, "w") as fh:
        json.dump(suspects, fh)
    os.rename(tmp, path)
    return os.path.getsize(path)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--report", default=os.path.join(tempfile.gettempdir(), "label_audit.json"))
    args = ap.parse_args()
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()

    box = [CONFIG if rank == 0 else None]
    dist.broadcast_object_list(box, src=0)
    cfg = box[0]

    mine = [None]
    dist.scatter_object_list(mine, build_shards(world) if rank == 0 else None, src=0)
    rows = mine[0]

    suspects = find_suspects(rows, cfg["threshold"])
    gathered = [None] * world if rank == 0 else None
    dist.gather_object(suspects, gathered, dst=0)

    if rank == 0:
        flat = sorted(s for part in gathered if part for s in part)
        size = write_report(args.report, flat)
        print("suspects", Counter(s[1] for s in flat), "bytes", size)

    total = torch.tensor([len(rows)])
    dist.all_reduce(total)
    if rank == 0:
        print("audited", total.item(), "rows")
        os.remove(args.report)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
