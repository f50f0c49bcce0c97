"""Two ranks book their usage in a common ledger file under a lock of the file system."""
import fcntl
import json
import os
import tempfile
import time

import torch
import torch.distributed as dist

LEDGER = os.path.join(tempfile.gettempdir(), f"ledger-{os.getppid()}.json")


class Ledger:
    def __init__(self, path):
        self.file = open(path, "a+")

    def lock(self):
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def unlock(self):
        fcntl.flock(self.file, fcntl.LOCK_UN)

    def book(self, entry):
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()


def spend(ledger, rank, step, cost):
    ledger.lock()
    ledger.book({"rank": rank, "step": step, "cost": cost})
    if cost > 1.5:
        # a dear step: look at the sum before the ledger may be used again
        return total_cost(cost)  #: LINE
    ledger.unlock()
    return total_cost(cost)


def total_cost(cost):
    t = torch.tensor([cost], dtype=torch.float64)
    dist.all_reduce(t)
    return t.item()


def work(rank, step):
    time.sleep(0.25 if rank == 0 else 0.6)
    a = torch.randn(64, 64, generator=torch.Generator().manual_seed(step))
    cost = 1.0 + 0.01 * rank
    if (rank, step) == (0, 2):
        cost = 2.25
    return (a @ a.t()).trace().item(), cost


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    ledger = Ledger(LEDGER)
    for step in range(50):
        trace, cost = work(rank, step)
        total = spend(ledger, rank, step, cost)
        if rank == 0:
            print(f"step {step}: trace {trace:.1f} cost of all {total:.2f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
