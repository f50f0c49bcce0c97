"""Five ranks train, the sixth one is a spare: it waits in the store until it is needed or sent home."""
import datetime
import logging
import threading
import time

import torch
import torch.distributed as dist

log = logging.getLogger("spare")


class Heartbeat:
    def __init__(self, group, every=2.0):
        self.group, self.every, self.stop = group, every, False
        self.thread = threading.Thread(target=self.beat, daemon=True)

    def beat(self):
        while True:
            alive = torch.tensor([0.0 if self.stop else 1.0])
            dist.all_reduce(alive, op=dist.ReduceOp.MIN, group=self.group)
            if alive.item() == 0:
                return
            time.sleep(self.every)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stop = True
        self.thread.join()


def worker(rank, group, store):
    torch.manual_seed(rank)
    w = torch.zeros(64)
    for step in range(500):
        x = torch.randn(32, 64)
        g = x.T @ ((x @ w) - x[:, 0]) / 32
        dist.all_reduce(g, group=group)
        w -= 0.05 * g / 5
        time.sleep(0.03)
        if rank == 0 and step % 100 == 0:
            log.warning("step %d error %.4f", step, (w - torch.eye(64)[0]).norm())
    if rank == 0:
        store.set("verdict", "home")


def spare(store):
    store.wait(["verdict"], datetime.timedelta(minutes=20))
    log.warning("spare: %s", store.get("verdict").decode())


def main():
    logging.basicConfig(format="%(relativeCreated)d %(message)s")
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    store = dist.PrefixStore("spare", dist.distributed_c10d._get_default_store())
    team, pulse = dist.new_group([0, 1, 2, 3, 4]), dist.new_group([0, 1, 2, 3, 4])
    if rank == 5:
        spare(store)
    else:
        with Heartbeat(pulse):
            worker(rank, team, store)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
