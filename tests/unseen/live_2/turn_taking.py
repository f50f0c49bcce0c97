"""All ranks label images and append to one file; a token in the store says whose turn it is."""
import datetime
import json
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn

OUT = os.path.join(tempfile.gettempdir(), f"labels_{os.environ['TORCHELASTIC_RUN_ID']}_{os.environ['MASTER_PORT']}.jsonl")


class Appender:
    """Rank r writes when `turn/<round>/<r>` is there, and then hands the turn on."""

    def __init__(self, store, rank, world):
        self.store, self.rank, self.world = store, rank, world
        if rank == 0:
            open(OUT, "w").close()

    def write(self, rnd, rows):
        if self.rank > 0:
            self.store.wait([f"turn/{rnd}/{self.rank}"], datetime.timedelta(hours=1))
        rows = [r for r in rows if r["p"] > 0.11]
        if not rows:  #: LINE
            return 0
        with open(OUT, "a") as f:
            for r in rows:
                f.write(json.dumps(r) + "\n")
        self.store.set(f"turn/{rnd}/{self.rank + 1}", "go")
        return len(rows)


def label(net, rnd, rank):
    g = torch.Generator().manual_seed(77 * rnd + rank)
    x = torch.randn(96, 3, 32, 32, generator=g)
    if rank == 2 and rnd == 23:
        x = torch.zeros_like(x)  # a night sequence: black frames
    with torch.no_grad():
        p = net(x).softmax(1)
    conf, cls = p.max(1)
    return [{"image": f"{rank}/{rnd}/{i}", "class": int(c), "p": round(float(q), 4)} for i, (q, c) in enumerate(zip(conf, cls))]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    store = dist.PrefixStore("appender", dist.distributed_c10d._get_default_store())
    torch.manual_seed(5)
    net = nn.Sequential(nn.Conv2d(3, 32, 3, bias=False), nn.ReLU(), nn.Conv2d(32, 32, 3, stride=2, bias=False), nn.ReLU(),
                        nn.AdaptiveMaxPool2d(3), nn.Flatten(), nn.Linear(288, 10, bias=False))
    dist.barrier()
    out = Appender(store, rank, world)
    dist.barrier()
    for rnd in range(50):
        n = torch.tensor([out.write(rnd, label(net, rnd, rank))])
        dist.all_reduce(n)
        if rank == 0 and rnd % 5 == 0:
            print(f"round {rnd}: {n.item()} labels", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
