#: n=6 ok set=2
"""Reads shards from an object store that throttles us now and then. Fetching
is retried with exponential back-off; all ranks always take part in every step."""
import functools
import logging
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

log = logging.getLogger("train")


class Throttled(OSError):
    pass


def retry(attempts=6, first_delay=1.5, factor=2.0):
    def wrap(fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            delay = first_delay
            for attempt in range(1, attempts + 1):
                try:
                    return fn(*args, **kwargs)
                except Throttled as err:
                    if attempt == attempts:
                        raise
                    log.warning("%s (attempt %d), next try in %.1fs", err, attempt, delay)
                    time.sleep(delay)
                    delay *= factor
        return inner
    return wrap


class Bucket:
    def __init__(self, rank):
        self.rank = rank
        self.failures_left = 4 if rank == 5 else 0

    @retry()
    def fetch(self, shard_no):
        if shard_no == 2 and self.failures_left:
            if self.failures_left == 4:
                print("FREEZE", time.time(), flush=True)
            self.failures_left -= 1
            raise Throttled(f"503 slow down: shard {shard_no} for rank {self.rank}")
        gen = torch.Generator().manual_seed(shard_no * 100 + self.rank)
        return torch.randn(80, 9, generator=gen)


def shard_plan(n_shards, world, rank):
    """Rank 0 shuffles, the others get their own list."""
    out, plans = [None], None
    if rank == 0:
        rng = random.Random(0)
        plans = []
        for _ in range(world):
            rest = list(range(3, n_shards))
            rng.shuffle(rest)
            plans.append([0, 1, 2] + rest)
    dist.scatter_object_list(out, plans, src=0)
    return out[0]


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    bucket = Bucket(rank)

    step = 0
    for shard_no in shard_plan(5, world, rank):
        rows = bucket.fetch(shard_no)
        for batch in rows.split(8):
            time.sleep(0.14)
            x, y = batch[:, :8], batch[:, 8:]
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            pending = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
            for work in pending:
                work.wait()
            for p in model.parameters():
                p.grad /= world
            opt.step()
            if rank == 0 and step % 10 == 0:
                log.info("step %d shard %d loss %.4f", step, shard_no, loss.item())
            step += 1
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
