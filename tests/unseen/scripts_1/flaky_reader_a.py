"""Mean/variance over a data lake whose reads fail now and then; reads are retried."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist


class FlakyStore:
    """Stands for an object store: one read of rank 1 comes back truncated once."""

    def __init__(self, rank):
        self.rank = rank
        self.failed = False

    def read(self, key):
        g = torch.Generator().manual_seed(1000 * self.rank + key)
        block = torch.randn(16, generator=g)
        if self.rank == 1 and key == 6 and not self.failed:
            self.failed = True
            return block[:9]
        return block


def with_retry(fn, tries=3, pause=0.05):
    for attempt in range(tries):
        try:
            return fn()
        except ValueError as exc:
            print(f"attempt {attempt}: {exc}, trying again", flush=True)
            time.sleep(pause)
    raise RuntimeError("gave up")


def load(store, key):
    block = store.read(key)
    if len(block) != 16:
        raise ValueError(f"short read of key {key}: {len(block)} values")
    return block


def moments(block):
    return torch.stack([block.sum(), block.square().sum(), torch.tensor(float(len(block)))])


def process(store, key):
    def attempt():
        block = store.read(key)
        stats = moments(block)
        dist.all_reduce(stats)
        if len(block) != 16:
            raise ValueError(f"short read of key {key}: {len(block)} values")
        return stats

    return with_retry(attempt)


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank = dist.get_rank()
    store = FlakyStore(rank)
    total = torch.zeros(3)
    for key in range(9):
        total += process(store, key)
    mean = total[0] / total[2]
    var = total[1] / total[2] - mean ** 2
    if rank == 0:
        print(f"n={int(total[2])} mean={mean.item():.4f} var={var.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
